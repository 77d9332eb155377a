package show

import (
	"strings"
	"testing"

	"chorale/api"
)

func exactly(n uint64) *api.Amount { return &api.Amount{Estimate: n, Low: n, High: n} }

// TestExplanation: ranges that are not touched share a line, what is not exact has a
// mark and its bounds.
func TestExplanation(t *testing.T) {
	nothing := func(first, last uint64) *api.ExplainPart {
		return &api.ExplainPart{
			Source: api.ExplainPart_SEGMENT, FirstSeq: first, LastSeq: last, Files: 1, FilesAsked: 1, TableBytes: 100, ReadBytes: exactly(100),
		}
	}
	x := &api.ExplainResponse{
		Opened: &api.Opened{NodeId: "n1", Filters: []string{"a/**", "b"}, AfterSeq: 99},
		Parts: []*api.ExplainPart{
			{
				Source: api.ExplainPart_STORES, FirstSeq: 100, LastSeq: 2000, Files: 12, FilesAsked: 4, FilesRead: 3, Blocks: exactly(7), TableBytes: 1 << 10,
				ReadBytes: exactly(4 << 10), DecodedBytes: exactly(64 << 10), Bytes: &api.Amount{Estimate: 50 << 10, Low: 48 << 10, High: 60 << 10},
				Messages: &api.Amount{Estimate: 1200, Low: 1100, High: 1300},
			},
			nothing(2001, 2500), nothing(2501, 3000),
			{Source: api.ExplainPart_MEMORY, FirstSeq: 3001, LastSeq: 3002, Bytes: exactly(0), Messages: exactly(0)},
			{Source: api.ExplainPart_TIP, FirstSeq: 3003, LastSeq: 3010, Bytes: exactly(96), Messages: exactly(2)},
		},
		Total: &api.ExplainTotal{
			ReadBytes: exactly(4<<10 + 200), CachedBytes: 1 << 10, DecodedBytes: exactly(64 << 10), Bytes: &api.Amount{Estimate: 50<<10 + 96, Low: 48<<10 + 96, High: 60<<10 + 96},
			FileBytes: exactly(50 << 10), Messages: &api.Amount{Estimate: 1202, Low: 1102, High: 1302}, Nanos: 1_234_567_890, ReadAmplification: 0.084, DecodedAmplification: 1.28,
			FileRate: &api.Rate{BytesPerSecond: 400 << 20}, MemoryRate: &api.Rate{BytesPerSecond: 1 << 30, Measured: true},
		},
	}
	want := `a/** b
seq 100 to 3,010 on node n1

  FROM SEQ  TO SEQ       IN    FILES  BLOCKS     READ  DECODED    DELIVER  MESSAGES
       100   2,000   stores  3 of 12       7    4 KiB   64 KiB    ~50 KiB    ~1,200
     2,001   3,000  segment   0 of 2       0    200 B      0 B        0 B         0
     3,001   3,002   memory                                           0 B         0
     3,003   3,010      tip                                          96 B         2
     total                                    4.2 KiB   64 KiB  ~50.1 KiB    ~1,202

files   0.08 bytes read and 1.28 decoded for each that is delivered from them
cache   holds 1 KiB of what is to be read
time    about 1.23s, without network and client: 400 MiB/s from files (assumed, it has read too little yet), 1 GiB/s from memory (measured by this node)
~       is an estimate: delivered 48.1 KiB to 60.1 KiB, messages 1,102 to 1,302
`
	var b strings.Builder
	if err := Explanation(&b, x); err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	x.Parts = nil
	if err := Explanation(&b, x); err != nil || b.String() != "a/** b\nbehind seq 99 on node n1: nothing is there yet\n" {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	if err := ExplanationJSON(&b, x); err != nil || !strings.Contains(strings.ReplaceAll(b.String(), " ", ""), `"messages":{"estimate":"1202","low":"1102","high":"1302"}`) {
		t.Errorf("%v\n%s", err, b.String())
	}
}
