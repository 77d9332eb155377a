package topic_test

import (
	"fmt"

	"chorale/topic"
)

func ExampleParseFilters() {
	f, err := topic.ParseFilters("app/orders/**", "app/orders/created", "app/*/audit")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Canonical())
	fmt.Println(f.Match("app/orders"), f.Match("app/mail/audit"), f.Match("app/mail"))
	_, err = topic.ParseFilters("app/**/created")
	fmt.Println(err)
	// Output:
	// [app/*/audit app/orders/**]
	// true true false
	// invalid filter "app/**/created": '**' stands only at the end, as in a/b/**
}
