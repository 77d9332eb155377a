package layout

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
)

//go:embed page.html
var pageSource string

var page = template.Must(template.New("page").Parse(pageSource))

// pageData is what the page draws. Topics are in tree order, so each name is
// given as the length of what it shares with the one before it and the rest.
type pageData struct {
	Shared   []int        `json:"shared"`
	Rest     []string     `json:"rest"`
	Bytes    []uint64     `json:"bytes"`
	Messages []uint64     `json:"messages"`
	Layouts  []pageLayout `json:"layouts"`
}

type pageLayout struct {
	Name    string  `json:"name"`
	StoreOf []int32 `json:"storeOf"`
}

// WritePage writes one self-contained page: the tree of every algorithm side by
// side, and the lenses as a table.
func (c Comparison) WritePage(w io.Writer) error {
	var d pageData
	before := ""
	for _, v := range c.Tree.Topics {
		shared := 0
		for shared < min(len(before), len(v.Topic)) && before[shared] == v.Topic[shared] {
			shared++
		}
		for shared < len(v.Topic) && shared > 0 && v.Topic[shared]&0xc0 == 0x80 {
			shared-- // never cut within a character: the rest must be valid UTF-8
		}
		d.Shared = append(d.Shared, len([]rune(v.Topic[:shared])))
		d.Rest = append(d.Rest, v.Topic[shared:])
		d.Bytes = append(d.Bytes, v.Bytes)
		d.Messages = append(d.Messages, v.Messages)
		before = v.Topic
	}
	for _, l := range c.Layouts {
		if l.Split != nil {
			d.Layouts = append(d.Layouts, pageLayout{l.Name, l.Split.StoreOf})
		}
	}
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	lenses, err := json.Marshal(c.json())
	if err != nil {
		return err
	}
	return page.Execute(w, map[string]any{
		"Stream": c.Stream, "Data": template.JS(data), "Lenses": template.JS(lenses),
	})
}
