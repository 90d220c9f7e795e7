package kit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/fakehca"
	"ciddk/validate/kit"
)

func TestMessageSizes(t *testing.T) {
	assert.Equal(
		t, []int{0, 1, 2, 4, 8, 16, 32, 64, 128, 255, 256, 257, 511, 512, 513, 1024}, kit.MessageSizes(256, 1024),
	)
	assert.Equal(
		t, []int{0, 1, 2, 4, 8, 16, 32, 64, 128, 255, 256}, kit.MessageSizes(256, 256), "nothing above the limit",
	)
	for _, n := range kit.MessageSizes(4096, 1<<20) {
		assert.LessOrEqual(t, n, 1<<20)
	}
}

func TestWords(t *testing.T) {
	b := make([]byte, 24)
	kit.StoreWord(b[8:], 1<<40)
	assert.Equal(t, uint64(1<<40+5), kit.AddWord(b[8:], 5))
	assert.Equal(t, uint64(1<<40+5), kit.LoadWord(b[8:]))
	assert.Equal(t, make([]byte, 8), b[:8])
	assert.Equal(t, make([]byte, 8), b[16:])
	assert.Panics(t, func() { kit.LoadWord(b[1:]) }, "a word that is not aligned")
}

// TestDataExpectations checks the failures that the helpers of the data path report.
func TestDataExpectations(t *testing.T) {
	buf := func(t *validate.T) *kit.Buf {
		ca := kit.Open(t)
		b := ca.Buf(ca.PD(), 32, kit.AllAccess)
		b.Blank()
		copy(b.Bytes[4:], "abcd")
		return b
	}
	for name, x := range map[string]struct {
		body          func(*validate.T)
		expected, got string
	}{
		"only": {body: func(t *validate.T) { buf(t).WantOnly(t, "b", 4, []byte("abcd")) }},
		"behind": {
			func(t *validate.T) { buf(t).WantOnly(t, "b", 4, []byte("abc")) },
			"nothing written to the buffer, except bytes 4 to 6", "byte 7 of the buffer is 0x64",
		},
		"before": {
			func(t *validate.T) { buf(t).WantOnly(t, "b", 6, []byte("cd")) },
			"nothing written to the buffer, except bytes 6 to 7", "byte 4 of the buffer is 0x61",
		},
		"other bytes": {
			func(t *validate.T) { buf(t).WantOnly(t, "b", 4, []byte("abcx")) },
			"78", "64 (1 bytes differ)",
		},
		"accepted": {body: func(t *validate.T) { kit.WantTaken(t, "v", 2, nil, 2) }},
		"accepted, refused": {body: func(t *validate.T) {
			kit.WantTaken(t, "v", 1, &ci.Error{Verb: "V", Status: ci.InvalidMaxSGE}, 1, ci.InvalidMaxSGE)
		}},
		"too many accepted": {func(t *validate.T) {
			kit.WantTaken(t, "v", 2, &ci.Error{Verb: "V", Status: ci.InvalidMaxSGE}, 1, ci.InvalidMaxSGE)
		}, "1", "2"},
		"other status": {
			func(t *validate.T) { kit.WantTaken(t, "v", 1, nil, 1, ci.InvalidWRType) },
			"invalid WR type", "success",
		},
		"receive": {body: func(t *validate.T) {
			kit.WantRecv(t, "r", ci.WC{ID: 3, Op: ci.WCRecv, Imm: 9}, ci.WC{ID: 3, Op: ci.WCRecv})
		}},
		"receive's immediate data": {func(t *validate.T) {
			got := ci.WC{Op: ci.WCRecv, Flags: ci.WCImmediate, Imm: 9}
			kit.WantRecv(t, "r", got, ci.WC{Op: ci.WCRecv, Flags: ci.WCImmediate, Imm: 8})
		}, "0x8", "0x9"},
		"receive's context": {func(t *validate.T) {
			kit.WantRecv(t, "r", ci.WC{Op: ci.WCRecv, Context: 1}, ci.WC{Op: ci.WCRecv, Context: 2})
		}, "the context given at creation", "1"},
		"state": {func(t *validate.T) {
			ca := kit.Open(t)
			pd := ca.PD()
			cq := ca.CQ(pd, 4)
			ca.QP(pd, cq, cq).Becomes(ci.QPError)
		}, "Error", "Reset"},
		"word": {func(t *validate.T) { buf(t).WaitWord(t, 8, 1) }, "0x1", "0xeeeeeeeeeeeeeeee by the deadline"},
		"flushed": {
			func(t *validate.T) { kit.RC(t).A.CQ.WaitFlushed(1) },
			"1 completions", "0 by the deadline: no completion",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := runCase(t, fakehca.Faults{}, ci.LinkEthernet, x.body)
			if x.expected == "" {
				assert.Equal(t, validate.Pass, r.Status, "%+v", r.Failures)
				return
			}
			require.Equal(t, validate.Fail, r.Status)
			assert.Equal(t, x.expected, r.Failures[0].Expected)
			assert.Equal(t, x.got, r.Failures[0].Got)
		})
	}
}

// TestAnother checks that another pair uses the same adapters and its own options.
func TestAnother(t *testing.T) {
	r := runCase(t, fakehca.Faults{}, ci.LinkInfiniBand, func(t *validate.T) {
		p := kit.RC(t, kit.Depth(4), kit.Size(4096))
		q := p.Another(kit.Depth(8), kit.Size(256))
		kit.Equal(t, "depth", q.A.Config.Caps.SendDepth, 8)
		kit.Equal(t, "MTU", q.A.PathMTU(), p.A.PathMTU())
		q.A.Exchange(q.B, 10)
		n := p.AnotherInReset()
		kit.Equal(t, "state", n.A.State(), ci.QPReset)
		n.Connect()
		n.B.Exchange(n.A, 10)
		n.A.RecvCQ.Quiet(time.Millisecond)
	})
	assert.Equal(t, validate.Pass, r.Status, "%+v", r.Failures)
}
