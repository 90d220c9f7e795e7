package lnd

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
)

func TestReject(t *testing.T) {
	r := Reject{Why: WhyStale, Stamp: 0x1122334455667788, Params: params{Depth: 8, Pieces: 256, MsgSize: 4096}}
	b := unhex("911be90b 1200 05 00 8877665544332211 0800 0001 00100000")
	require.Equal(t, b, r.append(nil))
	r.Magic, r.Version = magic, version
	var got *Reject
	require.ErrorAs(t, refusal(&cm.RejectError{Private: append(b, make([]byte, 124)...)}), &got) // as in a REJ
	require.Equal(t, &r, got)
	require.ErrorContains(t, got, "reason 5")
	for _, private := range [][]byte{nil, b[:23], make([]byte, 148)} {
		err := &cm.RejectError{Private: private}
		require.Same(t, err, refusal(err), "the rejection of another program")
	}
	require.NoError(t, refusal(nil))
}

func TestJudge(t *testing.T) {
	most := params{Depth: 8, Pieces: 1, MsgSize: msgSize}
	const stamp = 77
	tests := []struct {
		name string
		edit func(*message)
		why  Why
	}{
		{"as we would", func(*message) {}, 0},
		{"less", func(m *message) { m.params.Depth = 2 }, 0},
		{"to this incarnation", func(m *message) { m.ToStamp = stamp }, 0},
		{"to another incarnation", func(m *message) { m.ToStamp = stamp - 1 }, WhyStale},
		{"deeper", func(m *message) { m.params.Depth = 9 }, WhyDepth},
		{"more pieces", func(m *message) { m.params.Pieces = 257 }, WhyPieces},
		{"longer messages", func(m *message) { m.params.MsgSize = 8192 }, WhyFatal},
		{"too little depth", func(m *message) { m.params.Depth = 1 }, WhyFatal},
		{"no pieces", func(m *message) { m.params.Pieces = 0 }, WhyFatal},
		{"to somebody else", func(m *message) { m.To = nidA }, WhyFatal},
		{"in another's name", func(m *message) { m.From = nidB }, WhyFatal},
		{"no request", func(m *message) { m.Type = connAck }, WhyFatal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := message{header: header{Type: connReq, From: nidA, FromStamp: 5, To: nidB}, params: most}
			tt.edit(&req)
			m, why := checkRequest(req.append(nil), nidA, nidB, stamp, most)
			require.Equal(t, tt.why, why)
			require.Equal(t, req.params, m.params)
		})
	}
	_, why := checkRequest([]byte("no message at all"), nidA, nidB, stamp, most)
	require.Equal(t, WhyFatal, why)
}

func TestAgree(t *testing.T) {
	req := message{header: header{Type: connReq, From: nidA, FromStamp: 5, To: nidB},
		params: params{Depth: 8, Pieces: 1, MsgSize: 4096}}
	tests := []struct {
		name string
		edit func(*message)
		says string
	}{
		{"as asked", func(*message) {}, ""},
		{"less", func(m *message) { m.params.Depth = 2 }, ""},
		{"more depth", func(m *message) { m.params.Depth = 9 }, "we asked for {Depth:8"},
		{"too little depth", func(m *message) { m.params.Depth = 1 }, "the answer says {Depth:1"},
		{"more pieces", func(m *message) { m.params.Pieces = 2 }, "Pieces:2"},
		{"longer messages", func(m *message) { m.params.MsgSize = 5000 }, "MsgSize:5000"},
		{"from another", func(m *message) { m.From = nidA }, "no answer to our request"},
		{"to an earlier us", func(m *message) { m.ToStamp = 4 }, "no answer to our request"},
		{"a request", func(m *message) { m.Type = connReq }, "no answer to our request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ack := message{header: header{Type: connAck, From: nidB, FromStamp: 9, To: nidA, ToStamp: 5},
				params: req.params}
			tt.edit(&ack)
			m, err := agree(append(ack.append(nil), make([]byte, 100)...), &req)
			if tt.says != "" {
				require.ErrorIs(t, err, ErrMessage)
				require.ErrorContains(t, err, tt.says)
				return
			}
			require.NoError(t, err)
			require.Equal(t, ack.params, m.params)
		})
	}
	_, err := agree(nil, &req)
	require.ErrorIs(t, err, ErrMessage)
}

func TestLower(t *testing.T) {
	out := &ci.Error{Verb: "PD.CreateQP", Status: ci.InsufficientResources}
	tests := []struct {
		name string
		err  error
		was  uint16
		now  uint16
	}{
		{"nothing wrong", nil, 8, 0},
		{"the adapter", out, 8, 7},
		{"the adapter's limit", &ci.Error{Status: ci.InvalidMaxWRs}, 8, 7},
		{"the adapter, of the least", out, 2, 0},
		{"the peer", &Reject{Why: WhyDepth, Params: params{Depth: 4}}, 8, 4},
		{"the peer, and no less", &Reject{Why: WhyDepth, Params: params{Depth: 8}}, 8, 0},
		{"the peer, and what cannot work", &Reject{Why: WhyDepth, Params: params{Depth: 1}}, 8, 0},
		{"the peer, for another reason", &Reject{Why: WhyFatal, Params: params{Depth: 4}}, 8, 0},
		{"another error", errors.New("no route"), 8, 0},
	}
	for _, tt := range tests {
		require.Equal(t, tt.now, lower(tt.was, tt.err), tt.name)
	}
}
