package native

import (
	"reflect"
	"testing"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// FuzzRequest parses arbitrary bytes as the body of each command. What is accepted is encoded to the same bytes.
func FuzzRequest(f *testing.F) {
	for c := schema.Command(1); c < schema.NumCommands; c++ {
		v, n := reflect.New(schema.Commands[c].Request), uint64(0)
		fill(v.Elem(), nil, &n)
		f.Add(uint16(c), Append(nil, v.Interface()))
	}
	f.Fuzz(func(t *testing.T, c uint16, b []byte) {
		cmd := schema.Command(c%uint16(schema.NumCommands-1) + 1)
		same(t, b, reflect.New(schema.Commands[cmd].Request))
		same(t, b, reflect.New(schema.Commands[cmd].Reply))
		same(t, b, reflect.New(reflect.TypeFor[schema.ErrorReply]()))
	})
}

func same(t *testing.T, b []byte, v reflect.Value) {
	if Parse(b, v.Interface()) != nil {
		return
	}
	if got := Append(nil, v.Interface()); string(got) != string(b) {
		t.Fatalf("%v: %x was accepted, and encoded as %x", v.Type(), b, got)
	}
}

// FuzzPost parses arbitrary bytes as posts.
func FuzzPost(f *testing.F) {
	sends, handles := goldenSends()
	b := AppendPost(nil, schema.MakeHandle(schema.KindQP, 1, 2), len(sends))
	for i := range sends {
		b = AppendSend(b, &sends[i], handles[i])
	}
	f.Add(b)
	b = AppendPost(nil, schema.MakeHandle(schema.KindQP, 1, 2), 2)
	b = AppendRecv(b, &ci.RecvWR{ID: 1, SGL: []ci.SGE{{Addr: 2}}})
	f.Add(AppendRecv(b, &ci.RecvWR{}))
	f.Add(AppendPoll(nil, 1, 1))
	var p Posts
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := p.ParseSend(b); err == nil {
			got := AppendPost(nil, q, len(p.Send))
			for i := range p.Send {
				got = AppendSend(got, &p.Send[i], p.Handles[i])
			}
			if string(got) != string(b) {
				t.Fatalf("send %x was accepted, and encoded as %x", b, got)
			}
		}
		if q, err := p.ParseRecv(b); err == nil {
			got := AppendPost(nil, q, len(p.Recv))
			for i := range p.Recv {
				got = AppendRecv(got, &p.Recv[i])
			}
			if string(got) != string(b) {
				t.Fatalf("receive %x was accepted, and encoded as %x", b, got)
			}
		}
		_, _, _ = ParsePoll(b)
		_, _ = ParseCompletions(b, make([]ci.WC, 8), func(uint64) any { return nil })
		_, _, _ = ParseHeader(b)
	})
}
