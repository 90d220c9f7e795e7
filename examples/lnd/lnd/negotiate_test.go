package lnd

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	most := Params{Depth: 8, MaxFrags: MaxFrags, MsgSize: MsgSize}
	const stamp = 77
	tests := []struct {
		name string
		edit func(*Message)
		why  Why
	}{
		{"as we would", func(*Message) {}, 0},
		{"less of everything", func(m *Message) { m.Params = Params{Depth: 2, MaxFrags: 1, MsgSize: 4096} }, 0},
		{"to this incarnation", func(m *Message) { m.ToStamp = stamp }, 0},
		{"to another incarnation", func(m *Message) { m.ToStamp = stamp - 1 }, WhyStale},
		{"deeper", func(m *Message) { m.Params.Depth = 9 }, WhyQueueDepth},
		{"more pieces", func(m *Message) { m.Params.MaxFrags = 258 }, WhyFrags},
		{"longer messages", func(m *Message) { m.Params.MsgSize = 8192 }, WhyFatal},
		{"a queue that can stand still", func(m *Message) { m.Params.Depth = 1 }, WhyFatal},
		{"no pieces", func(m *Message) { m.Params.MaxFrags = 0 }, WhyFatal},
		{"version 1", func(m *Message) { m.Version = version1 }, WhyFatal},
		{"version 3", func(m *Message) { m.Version = 0x13 }, WhyFatal},
		{"to somebody else", func(m *Message) { m.To = nidA }, WhyFatal},
		{"from nobody", func(m *Message) { m.From = 0 }, WhyFatal},
		{"no request", func(m *Message) { m.Type = ConnAck }, WhyFatal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := Message{Version: version2, Type: ConnReq, From: nidA, FromStamp: 5, To: nidB, Params: most}
			tt.edit(&req)
			m, why := judge(req.Append(nil, true), nidB, stamp, most)
			require.Equal(t, tt.why, why)
			if why == 0 {
				require.Equal(t, req.Params, m.Params)
			}
		})
	}
	_, why := judge([]byte("no message at all"), nidB, stamp, most)
	require.Equal(t, WhyFatal, why)
}

func TestAccept(t *testing.T) {
	req := Message{Version: version2, Type: ConnReq, From: nidA, FromStamp: 5, To: nidB, Params: Params{Depth: 8, MaxFrags: 100, MsgSize: 4096}}
	tests := []struct {
		name string
		edit func(*Message)
		says string
	}{
		{"as asked", func(*Message) {}, ""},
		{"less", func(m *Message) { m.Params.Depth, m.Params.MaxFrags = 2, 99 }, ""},
		{"more depth", func(m *Message) { m.Params.Depth = 9 }, "queue depth 8, the answer says 9"},
		{"too little depth", func(m *Message) { m.Params.Depth = 1 }, "the answer says 1"},
		{"more pieces", func(m *Message) { m.Params.MaxFrags = 101 }, "100 pieces, the answer says 101"},
		{"another version", func(m *Message) { m.Version = version1 }, "no answer to our request"},
		{"from another", func(m *Message) { m.From = nidA }, "no answer to our request"},
		{"to an earlier us", func(m *Message) { m.ToStamp = 4 }, "no answer to our request"},
		{"a request", func(m *Message) { m.Type = ConnReq }, "no answer to our request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ack := Message{Version: version2, Type: ConnAck, From: nidB, FromStamp: 9, To: nidA, ToStamp: 5, Params: req.Params}
			tt.edit(&ack)
			m, err := accept(append(ack.Append(nil, false), make([]byte, 100)...), &req)
			if tt.says != "" {
				require.ErrorContains(t, err, tt.says)
				return
			}
			require.NoError(t, err)
			require.Equal(t, ack.Params, m.Params)
		})
	}
}

func TestRetry(t *testing.T) {
	was := Params{Depth: 8, MaxFrags: 257, MsgSize: 4096}
	tests := []struct {
		name  string
		r     Reject
		now   Params
		again bool
	}{
		{"restarted", Reject{Why: WhyStale, Stamp: 9}, was, true},
		{"depth", Reject{Why: WhyQueueDepth, Params: Params{Depth: 4, MaxFrags: 1}}, Params{4, 257, 4096}, true},
		{"depth that is no less", Reject{Why: WhyQueueDepth, Params: Params{Depth: 8}}, was, false},
		{"depth that cannot work", Reject{Why: WhyQueueDepth, Params: Params{Depth: 1}}, Params{1, 257, 4096}, false},
		{"pieces", Reject{Why: WhyFrags, Params: Params{MaxFrags: 256}}, Params{8, 256, 4096}, true},
		{"no pieces", Reject{Why: WhyFrags}, Params{8, 0, 4096}, false},
		{"no resources", Reject{Why: WhyResources}, was, false},
		{"for good", Reject{Why: WhyFatal}, was, false},
		{"race", Reject{Why: WhyRace}, was, false},
		{"unknown", Reject{Why: 200}, was, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now, again := retry(&tt.r, was)
			require.Equal(t, tt.again, again)
			require.Equal(t, tt.now, now)
			require.NotContains(t, tt.r.Error(), "%!")
		})
	}
}
