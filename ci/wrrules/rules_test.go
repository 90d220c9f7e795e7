package wrrules_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/wrrules"
)

const allCaps = ci.CapSendInvalidate | ci.CapFastReg | ci.CapMW2 | ci.CapIPChecksum | ci.CapLSO |
	ci.CapAtomicWrite | ci.CapFlush

func rules(typ ci.QPType, caps ci.Caps) *wrrules.Rules {
	return &wrrules.Rules{Type: typ, Caps: caps, Atomicity: ci.AtomicLocal, MaxReadSGEs: 2, SendSGE: 3, MaxInline: 16}
}

// TestOperations checks every operation on every service, with and without the capability that it needs.
func TestOperations(t *testing.T) {
	const ok, no, not = wrrules.OK, wrrules.WRType, wrrules.Unsupported
	for op, want := range map[ci.SendOp]struct{ with, without [3]wrrules.Reason }{ // RC, UC, UD
		ci.OpSend:        {[3]wrrules.Reason{ok, ok, ok}, [3]wrrules.Reason{ok, ok, ok}},
		ci.OpWrite:       {[3]wrrules.Reason{ok, ok, no}, [3]wrrules.Reason{ok, ok, no}},
		ci.OpRead:        {[3]wrrules.Reason{ok, no, no}, [3]wrrules.Reason{ok, no, no}},
		ci.OpCompareSwap: {[3]wrrules.Reason{ok, no, no}, [3]wrrules.Reason{not, no, no}},
		ci.OpFetchAdd:    {[3]wrrules.Reason{ok, no, no}, [3]wrrules.Reason{not, no, no}},
		ci.OpLSO:         {[3]wrrules.Reason{no, no, ok}, [3]wrrules.Reason{no, no, not}},
		ci.OpNop:         {[3]wrrules.Reason{ok, ok, ok}, [3]wrrules.Reason{ok, ok, ok}},
		ci.OpLocalInv:    {[3]wrrules.Reason{ok, ok, no}, [3]wrrules.Reason{not, not, no}},
		ci.OpFastReg:     {[3]wrrules.Reason{ok, ok, no}, [3]wrrules.Reason{not, not, no}},
		ci.OpBindMW:      {[3]wrrules.Reason{ok, ok, no}, [3]wrrules.Reason{not, not, no}},
		ci.OpAtomicWrite: {[3]wrrules.Reason{ok, no, no}, [3]wrrules.Reason{not, no, no}},
		ci.OpFlush:       {[3]wrrules.Reason{ok, no, no}, [3]wrrules.Reason{not, no, no}},
		99:               {[3]wrrules.Reason{no, no, no}, [3]wrrules.Reason{no, no, no}},
	} {
		for i, typ := range []ci.QPType{ci.RC, ci.UC, ci.UD} {
			q := &wrrules.Request{Op: op, SGEs: 1, HasAV: true, HasObjects: true}
			assert.Equal(t, want.with[i], rules(typ, allCaps).Check(q), "%v on %v", op, typ)
			bare := rules(typ, 0)
			bare.Atomicity = ci.AtomicNone
			assert.Equal(t, want.without[i], bare.Check(q), "%v on %v without capabilities", op, typ)
		}
	}
}

type request = wrrules.Request

// large returns a large send that differs from a valid one.
func large(change func(*request)) wrrules.Request {
	q := wrrules.Request{Op: ci.OpLSO, HasAV: true, HasObjects: true}
	change(&q)
	return q
}

// requests are requests that differ from a valid one in one point.
var requests = map[string]struct {
	typ  ci.QPType
	caps ci.Caps
	q    wrrules.Request
	want wrrules.Reason
}{
	"entries":            {ci.RC, 0, wrrules.Request{SGEs: 3}, wrrules.OK},
	"too many entries":   {ci.RC, 0, wrrules.Request{SGEs: 4}, wrrules.SGEs},
	"entries of a read":  {ci.RC, 0, wrrules.Request{Op: ci.OpRead, SGEs: 2}, wrrules.OK},
	"too many of a read": {ci.RC, 0, wrrules.Request{Op: ci.OpRead, SGEs: 3}, wrrules.SGEs},
	"inline":             {ci.RC, 0, wrrules.Request{IsInline: true, Inline: 16}, wrrules.OK},
	"inline, entries":    {ci.RC, 0, wrrules.Request{IsInline: true, SGEs: 99}, wrrules.OK},
	"long inline":        {ci.RC, 0, wrrules.Request{IsInline: true, Inline: 17}, wrrules.Inline},
	"inline read":        {ci.RC, 0, wrrules.Request{Op: ci.OpRead, IsInline: true}, wrrules.Inline},
	"large send":         {ci.UD, ci.CapLSO, large(func(q *request) { q.SGEs = 3 }), wrrules.OK},
	"large, no header":   {ci.UD, ci.CapLSO, large(func(q *request) { q.HasObjects = false }), wrrules.Parameter},
	"large, no address":  {ci.UD, ci.CapLSO, large(func(q *request) { q.HasAV = false }), wrrules.AV},
	"large, no QP":       {ci.UD, ci.CapLSO, large(func(q *request) { q.QPN = 1 << 24 }), wrrules.Parameter},
	"large, inline":      {ci.UD, ci.CapLSO, large(func(q *request) { q.IsInline = true }), wrrules.Inline},
	"large, entries":     {ci.UD, ci.CapLSO, large(func(q *request) { q.SGEs = 4 }), wrrules.SGEs},
	"inline atomic":      {ci.RC, 0, wrrules.Request{Op: ci.OpFetchAdd, IsInline: true}, wrrules.Inline},
	"atomic write":       {ci.RC, allCaps, wrrules.Request{Op: ci.OpAtomicWrite, SGEs: 3}, wrrules.OK},
	"entries of it":      {ci.RC, allCaps, wrrules.Request{Op: ci.OpAtomicWrite, SGEs: 4}, wrrules.SGEs},
	"8 bytes inline": {ci.RC, allCaps, wrrules.Request{Op: ci.OpAtomicWrite, IsInline: true, Inline: 8},
		wrrules.OK},
	"7 bytes inline": {ci.RC, allCaps, wrrules.Request{Op: ci.OpAtomicWrite, IsInline: true, Inline: 7},
		wrrules.Inline},
	"flush of no type":   {ci.RC, allCaps, wrrules.Request{Op: ci.OpFlush}, wrrules.Parameter},
	"no vector":          {ci.UD, 0, wrrules.Request{}, wrrules.AV},
	"large QPN":          {ci.UD, 0, wrrules.Request{HasAV: true, QPN: 1 << 24}, wrrules.Parameter},
	"QPN of a group":     {ci.UD, 0, wrrules.Request{HasAV: true, QPN: 0xffffff}, wrrules.OK},
	"invalidate":         {ci.RC, allCaps, wrrules.Request{Flags: ci.SendInvalidate}, wrrules.OK},
	"invalidate on UC":   {ci.UC, allCaps, wrrules.Request{Flags: ci.SendInvalidate}, wrrules.WRType},
	"invalidate on UD":   {ci.UD, allCaps, wrrules.Request{Flags: ci.SendInvalidate, HasAV: true}, wrrules.WRType},
	"invalidate, no cap": {ci.RC, 0, wrrules.Request{Flags: ci.SendInvalidate}, wrrules.Unsupported},
	"invalidate with imm": {ci.RC, allCaps, wrrules.Request{Flags: ci.SendInvalidate | ci.SendImmediate},
		wrrules.Parameter},
	"checksum":           {ci.UD, allCaps, wrrules.Request{Flags: ci.SendIPChecksum, HasAV: true}, wrrules.OK},
	"checksum, no cap":   {ci.UD, 0, wrrules.Request{Flags: ci.SendL4Checksum, HasAV: true}, wrrules.Unsupported},
	"bind of nothing":    {ci.RC, allCaps, wrrules.Request{Op: ci.OpBindMW}, wrrules.Parameter},
	"registration":       {ci.UC, allCaps, wrrules.Request{Op: ci.OpFastReg}, wrrules.Parameter},
	"region invalidate":  {ci.RC, ci.CapFastReg, wrrules.Request{Op: ci.OpLocalInv}, wrrules.OK},
	"window invalidate":  {ci.UC, ci.CapMW2, wrrules.Request{Op: ci.OpLocalInv}, wrrules.OK},
	"neither invalidate": {ci.RC, ci.CapMW1, wrrules.Request{Op: ci.OpLocalInv}, wrrules.Unsupported},
	"register, no cap": {ci.RC, ci.CapMW2, wrrules.Request{Op: ci.OpFastReg, HasObjects: true},
		wrrules.Unsupported},
}

// TestRequests checks what depends on more than the operation.
func TestRequests(t *testing.T) {
	for name, c := range requests {
		assert.Equal(t, c.want, rules(c.typ, c.caps).Check(&c.q), name)
	}
}

// TestStatuses checks that each reason has a status of the verb and of a completion.
func TestStatuses(t *testing.T) {
	require.EqualValues(t, ci.Success, wrrules.OK.Status())
	require.Equal(t, ci.WCSuccess, wrrules.OK.WCStatus())
	for r := wrrules.OK + 1; r < wrrules.NumReasons; r++ {
		assert.NotEqualValues(t, ci.Success, r.Status())
		assert.Equal(t, r.Status(), wrrules.NewErrors("QP.PostSend", ci.InvalidQPHandle).Of(r).Status)
		assert.Equal(t, ci.WCLocalOpErr, r.WCStatus())
	}
	require.Equal(t, ci.UnknownError, wrrules.NumReasons.Status())
	require.Nil(t, wrrules.NewErrors("QP.PostSend", ci.InvalidQPHandle).Of(wrrules.OK))
}

// TestCanBind checks the rights of windows and regions.
func TestCanBind(t *testing.T) {
	const write = ci.LocalWrite | ci.BindWindow
	for _, c := range []struct {
		region, window ci.Access
		want           bool
	}{
		{ci.BindWindow, ci.RemoteRead, true},
		{ci.BindWindow, 0, true},
		{0, ci.RemoteRead, false},
		{ci.BindWindow, ci.RemoteWrite, false},
		{ci.BindWindow, ci.RemoteAtomic, false},
		{write, ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic, true},
		{write, ci.LocalWrite, false},
		{write, ci.RemoteWrite | ci.ZeroBased, true},
		{write | ci.ZeroBased, ci.RemoteWrite, false},
	} {
		assert.Equal(t, c.want, wrrules.CanBind(c.region, c.window), "%v on %v", c.window, c.region)
	}
}

// TestNoAllocation checks that a check does not allocate.
func TestNoAllocation(t *testing.T) {
	r := rules(ci.RC, allCaps)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if r.Check(&wrrules.Request{Op: ci.OpSend, SGEs: 1}) != wrrules.OK {
			t.Error("rejected")
		}
	}))
}
