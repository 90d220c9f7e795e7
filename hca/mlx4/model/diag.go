package model

import (
	"sync/atomic"

	"ciddk/hca/mlx4/prm"
)

// diag counts error completions by their syndromes, and lost completions.
type diag struct {
	recv, send [numSyndromes]atomic.Uint32
	overflows  atomic.Uint32
}

const numSyndromes = int(prm.SynRemoteAborted) + 1

// diagCounters are the counters of DIAG_RPRT that the model has. The others are 0.
var diagCounters = []struct {
	field    *prm.Field
	isSend   bool
	syndrome prm.Syndrome
}{
	{&prm.DiagRQLocalLength, false, prm.SynLocalLength},
	{&prm.DiagRQLocalQPOp, false, prm.SynLocalQPOp},
	{&prm.DiagRQLocalProtection, false, prm.SynLocalProtection},
	{&prm.DiagRQFlushed, false, prm.SynFlushed},
	{&prm.DiagSQLocalLength, true, prm.SynLocalLength},
	{&prm.DiagSQLocalQPOp, true, prm.SynLocalQPOp},
	{&prm.DiagSQLocalProtection, true, prm.SynLocalProtection},
	{&prm.DiagSQFlushed, true, prm.SynFlushed},
	{&prm.DiagSQWindowBind, true, prm.SynWindowBind},
	{&prm.DiagSQBadResponse, true, prm.SynBadResponse},
	{&prm.DiagSQRemoteInvalid, true, prm.SynRemoteInvalid},
	{&prm.DiagSQRemoteAccess, true, prm.SynRemoteAccess},
	{&prm.DiagSQRemoteOp, true, prm.SynRemoteOp},
	{&prm.DiagSQRetryExceeded, true, prm.SynRetryExceeded},
	{&prm.DiagSQRNRExceeded, true, prm.SynRNRExceeded},
}

// count counts the entry of a CQ, if it is one of an error.
func (d *diag) count(e []byte) {
	if prm.CQEOpcode.Get(e) != prm.CQEOpcodeError {
		return
	}
	list := &d.recv
	if prm.CQESend.Has(e) {
		list = &d.send
	}
	if s := prm.CQESyndrome.Get(e); s < uint64(numSyndromes) {
		list[s].Add(1)
	}
}

// clear sets all counters to 0.
func (d *diag) clear() {
	for i := range numSyndromes {
		d.recv[i].Store(0)
		d.send[i].Store(0)
	}
	d.overflows.Store(0)
}

// diagReport returns the diagnostic counters, which are those of the adapter for all ports.
func (c *command) diagReport() prm.Status {
	if c.port(uint8(c.mod)) == nil && c.mod != 0 {
		return prm.BadParam
	}
	b := make([]byte, prm.MailboxSize)
	for _, x := range diagCounters {
		list := &c.diag.recv
		if x.isSend {
			list = &c.diag.send
		}
		x.field.Put(b, uint64(list[x.syndrome].Load()))
	}
	prm.DiagCQOverflows.Put(b, uint64(c.diag.overflows.Load()))
	return c.outbox(b)
}
