package lnd

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

func TestReject(t *testing.T) {
	r := Reject{Version: version2, Why: WhyStale, Stamp: 0x1122334455667788,
		Params: params{Depth: 8, Frags: 256, MsgSize: 4096}}
	b := unhex("911be90b 1200 05 00 8877665544332211 0800 0001 00100000")
	require.Equal(t, b, r.encode())
	r.Magic = magic
	var got *Reject
	require.ErrorAs(t, refusal(&cm.RejectError{Private: append(b, make([]byte, 124)...)}), &got) // as in a REJ
	require.Equal(t, &r, got)
	require.ErrorContains(t, got, "stale")
	for _, private := range [][]byte{nil, b[:23], make([]byte, 148)} {
		err := &cm.RejectError{Private: private}
		require.Same(t, err, refusal(err), "the rejection of another program")
	}
	require.NoError(t, refusal(nil))
}

func TestCheckRequest(t *testing.T) {
	most := params{Depth: 8, Frags: 257, MsgSize: msgSize}
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
		{"more pieces", func(m *message) { m.params.Frags = 258 }, WhyFrags},
		{"longer messages", func(m *message) { m.params.MsgSize = 8192 }, WhyFatal},
		{"too little depth", func(m *message) { m.params.Depth = 1 }, WhyFatal},
		{"no pieces", func(m *message) { m.params.Frags = 0 }, WhyFatal},
		{"to somebody else", func(m *message) { m.To = nidA }, WhyFatal},
		{"no request", func(m *message) { m.Type = connAck }, WhyFatal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := message{header: header{Type: connReq, From: nidA, FromStamp: 5, To: nidB}, params: most}
			tt.edit(&req)
			m, why, _ := checkRequest(req.append(nil, plain), nidB, stamp, most)
			require.Equal(t, tt.why, why)
			require.Equal(t, req.params, m.params)
		})
	}
	_, why, err := checkRequest([]byte("no message at all"), nidB, stamp, most)
	require.Equal(t, WhyFatal, why)
	require.ErrorIs(t, err, ErrMessage)
}

func TestCheckReply(t *testing.T) {
	req := message{header: header{Type: connReq, From: nidA, FromStamp: 5, To: nidB},
		params: params{Depth: 8, Frags: 257, MsgSize: 4096}}
	tests := []struct {
		name string
		edit func(*message)
		says string
	}{
		{"as asked", func(*message) {}, ""},
		{"less", func(m *message) { m.params.Depth = 2 }, ""},
		{"more depth", func(m *message) { m.params.Depth = 9 }, "{Depth:8 Frags:257 MsgSize:4096} were requested"},
		{"too little depth", func(m *message) { m.params.Depth = 1 }, "the reply has {Depth:1"},
		{"more pieces", func(m *message) { m.params.Frags = 258 }, "Frags:258"},
		{"longer messages", func(m *message) { m.params.MsgSize = 5000 }, "MsgSize:5000"},
		{"from another", func(m *message) { m.From = nidA }, "no reply to the request"},
		{"to an earlier us", func(m *message) { m.ToStamp = 4 }, "no reply to the request"},
		{"a request", func(m *message) { m.Type = connReq }, "no reply to the request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ack := message{header: header{Type: connAck, From: nidB, FromStamp: 9, To: nidA, ToStamp: 5},
				params: req.params}
			tt.edit(&ack)
			m, err := checkReply(append(ack.append(nil, plain), make([]byte, 100)...), &req, version2)
			if tt.says != "" {
				require.ErrorIs(t, err, ErrMessage)
				require.ErrorContains(t, err, tt.says)
				return
			}
			require.NoError(t, err)
			require.Equal(t, ack.params, m.params)
		})
	}
	_, err := checkReply(nil, &req, version2)
	require.ErrorIs(t, err, ErrMessage)
}

// TestNextAttempt has all decisions after a failed attempt to connect.
func TestNextAttempt(t *testing.T) {
	first := attempt{version: version2, params: params{Depth: 8, Frags: 257, MsgSize: msgSize}}
	edit := func(f func(*attempt)) *attempt { a := first; f(&a); return &a }
	rejected := func(why Why, p params) error { return &Reject{Version: version2, Why: why, Params: p} }
	tests := []struct {
		name string
		err  error
		now  *attempt // nil: gives up
	}{
		{"nothing wrong", nil, nil},
		{"another error", errors.New("no route"), nil},
		{"the adapter lacks resources", &ci.Error{Verb: "PD.CreateQP", Status: ci.InsufficientResources},
			edit(func(a *attempt) { a.params.Depth = 7 })},
		{"the adapter's limit", &ci.Error{Status: ci.InvalidMaxWRs}, edit(func(a *attempt) { a.params.Depth = 7 })},
		{"race", rejected(WhyRace, params{}), &first},
		{"stale", &Reject{Why: WhyStale, Stamp: 9}, edit(func(a *attempt) { a.stamp = 9 })},
		{"stale, says its connection manager", refusal(&cm.RejectError{Reason: mad.RejStaleConnection}), &first},
		{"depth", rejected(WhyDepth, params{Depth: 4}), edit(func(a *attempt) { a.params.Depth = 4 })},
		{"depth, and no less", rejected(WhyDepth, params{Depth: 8}), nil},
		{"depth, and more", rejected(WhyDepth, params{Depth: 9}), nil},
		{"depth that cannot work", rejected(WhyDepth, params{Depth: 1}), nil},
		{"fragments", rejected(WhyFrags, params{Frags: 256}), edit(func(a *attempt) { a.params.Frags = 256 })},
		{"fragments, and no less", rejected(WhyFrags, params{Frags: 257}), nil},
		{"fragments that cannot work", rejected(WhyFrags, params{}), nil},
		{"version 1", &Reject{Version: version1, Why: WhyVersion},
			edit(func(a *attempt) { a.version = version1 })},
		{"version 1, without a name for that", &Reject{Version: version1, Why: WhyFatal},
			edit(func(a *attempt) { a.version = version1 })},
		{"an unknown version", &Reject{Version: 0x13, Why: WhyVersion}, nil},
		{"no resources", rejected(WhyResources, params{Depth: 4}), nil},
		{"fatal", rejected(WhyFatal, params{Depth: 4}), nil},
		{"no such service", rejected(WhyService, params{}), nil},
		{"early", rejected(WhyEarly, params{}), nil},
		{"an unknown reason", rejected(200, params{}), nil},
	}
	for _, tt := range tests {
		now, again := first.next(tt.err)
		require.Equal(t, tt.now != nil, again, tt.name)
		if again {
			require.Equal(t, *tt.now, now, tt.name)
		}
	}
	small := attempt{version: version2, params: params{Depth: minDepth, Frags: 1, MsgSize: msgSize}}
	_, again := small.next(&ci.Error{Verb: "PD.CreateQP", Status: ci.InsufficientResources})
	require.False(t, again)
	old := attempt{version: version1, params: first.params}
	_, again = old.next(&Reject{Version: version1, Why: WhyFatal})
	require.False(t, again, "rejected as version 1, too")
}

// FuzzConnect takes any private data of requests, replies and rejections.
func FuzzConnect(f *testing.F) {
	most := params{Depth: 8, Frags: maxFrags, MsgSize: msgSize}
	req := message{header: header{Type: connReq, From: nidA, FromStamp: 5, To: nidB}, params: most}
	ack := message{header: header{Type: connAck, From: nidB, FromStamp: 9, To: nidA, ToStamp: 5}, params: most}
	for _, format := range formats() {
		f.Add(req.append(nil, format))
		f.Add(ack.append(nil, format))
	}
	f.Add(Reject{Version: version1, Why: WhyVersion, Params: most}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, why, err := checkRequest(b, nidB, 9, most); err == nil && why == 0 {
			require.True(t, m.params.within(most))
		}
		if m, err := checkReply(b, &req, version2); err == nil {
			require.True(t, m.params.within(most))
		}
		a := attempt{version: version2, params: most}
		for tries, again := 0, true; again && tries < 20; tries++ {
			var now attempt
			now, again = a.next(refusal(&cm.RejectError{Private: b}))
			require.True(t, !again || now.params.within(most))
			a = now
		}
	})
}
