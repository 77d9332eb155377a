package main

import (
	"errors"
	"slices"
	"testing"

	"chorale/api"
	"chorale/cmd/show"
)

func TestUnasked(t *testing.T) {
	members := []*api.MemberStatus{
		{NodeId: "n1", ApiAddress: "h1:1"}, {NodeId: "n2", ApiAddress: "h2:1"},
		{NodeId: "n3", ApiAddress: "h3:1"}, {NodeId: "n4"},
	}
	up := func(id, address string) show.NodeStatus {
		return show.NodeStatus{Address: address, Status: &api.GetStatusResponse{NodeId: id, Members: members}}
	}
	down := show.NodeStatus{Address: "h2:1", Err: errors.New("down")}
	for name, test := range map[string]struct {
		nodes    []show.NodeStatus
		want     []string
		answered bool
	}{
		"one":             {[]show.NodeStatus{up("n1", "h1:1")}, []string{"h2:1", "h3:1"}, true},
		"another address": {[]show.NodeStatus{up("n1", "alias:1")}, []string{"h2:1", "h3:1"}, true},
		"one is down":     {[]show.NodeStatus{down, up("n1", "h1:1")}, []string{"h3:1"}, true},
		"all but one":     {[]show.NodeStatus{up("n1", "h1:1"), down, up("n3", "h3:1")}, nil, true},
		"all are down":    {[]show.NodeStatus{down}, nil, false},
	} {
		got, answered := unasked(test.nodes)
		if !slices.Equal(got, test.want) || answered != test.answered {
			t.Errorf("%s: got %v, %v", name, got, answered)
		}
	}
}
