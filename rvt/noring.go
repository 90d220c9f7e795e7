package rvt

import "ciddk/ci"

// Rings of destroyed queues, which are empty and accept nothing. They replace the real ones, so that a reference to a
// destroyed object keeps no queue memory.
type (
	noSendRing       struct{}
	noRecvRing       struct{}
	noCompletionRing struct{}
)

func (noSendRing) Next(*Work) bool                { return false }
func (noSendRing) Retire(int)                     {}
func (noSendRing) Post([]ci.SendWR, Resolver) int { return 0 }
func (noSendRing) Reset()                         {}
func (noSendRing) Depth() int                     { return 0 }
func (noSendRing) Len() int                       { return 0 }

func (noRecvRing) Next(*RecvWork) bool   { return false }
func (noRecvRing) Post([]ci.RecvWR) int  { return 0 }
func (noRecvRing) Reset()                {}
func (noRecvRing) Depth() int            { return 0 }
func (noRecvRing) Len() int              { return 0 }
func (noRecvRing) Resize(int) error      { return ci.InvalidQPHandle }
func (noCompletionRing) Put(*ci.WC) bool { return false }
func (noCompletionRing) Get([]ci.WC) int { return 0 }
func (noCompletionRing) Len() int        { return 0 }
func (noCompletionRing) Cap() int        { return 0 }

func (noCompletionRing) Resize(int) error { return ci.InvalidCQHandle }
