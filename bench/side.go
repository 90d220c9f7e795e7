package bench

import (
	"errors"
	"fmt"
	"net/netip"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/link/udp"
	"ciddk/rvt"
)

// Sizes of a side's queues. Between processes, which do not run in step, queues are deep. On the direct link they fit
// into the cache, as the yardstick's ring does.
var (
	deep    = ci.QPCaps{SendDepth: 511, RecvDepth: 2047, SendSGE: 1, RecvSGE: 1}
	shallow = ci.QPCaps{SendDepth: 63, RecvDepth: 127, SendSGE: 1, RecvSGE: 1}
)

const (
	batch    = 32 // requests per post in batches
	small    = 64 // bytes of a small message
	bufBytes = 32 << 20
	maxReads = 128
)

// A side is an HCA with one RC QP and its resources.
type side struct {
	hca   *reference.HCA // nil if another process has the adapter
	ca    ci.CA
	pd    ci.PD
	cq    ci.CQ
	mr    ci.MR
	qp    ci.QP
	port  ci.PortAttr
	reads uint8 // the most outstanding READs of a QP, in each direction
	buf   []byte
	mem   ci.Region     // region over buf
	wake  chan struct{} // signalled when an armed CQ has a completion
	undo  []func() error
}

// An address is what one side sends to the other to be reached.
type address struct {
	Link ci.Link
	LID  ci.LID
	GID  ci.GID
	MTU  ci.MTU
	QPN  ci.QPN
	Mem  ci.Region
	Sock netip.AddrPort // of a yardstick's socket
	File string         // of a yardstick's memory
}

func (s *side) address() address {
	a := address{Link: s.port.Link, LID: s.port.LID, MTU: s.port.MTU, Mem: s.mem}
	if len(s.port.GIDs) > 0 {
		a.GID = s.port.GIDs[0].GID
	}
	if s.qp != nil {
		a.QPN = s.qp.Num()
	}
	return a
}

// openPort opens the port of an HCA.
type openPort func() (rvt.Port, error)

func udpPort(addr netip.Addr) openPort {
	return func() (rvt.Port, error) { return udp.New(udp.Config{Addr: addr}) }
}

// newHCA opens an HCA with a PD and a region of size bytes.
func newHCA(open openPort, size int) (s *side, err error) {
	s = &side{buf: make([]byte, size), wake: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	p, err := open()
	if err != nil {
		return s, err
	}
	if s.hca, err = reference.New(reference.Config{Ports: []rvt.Port{p}}); err != nil {
		return s, err
	}
	s.undo = append(s.undo, s.hca.Close)
	return s, s.openCA(s.hca, ci.Bytes(s.buf))
}

// openCA opens the CA of an adapter, with a PD and a region over memory, which is s.buf.
func (s *side) openCA(h ci.HCA, memory ci.Memory) (err error) {
	if s.ca, err = h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil); err != nil {
		return err
	}
	s.undo = append(s.undo, s.ca.Destroy)
	attr, err := s.ca.Query()
	if err != nil {
		return err
	}
	s.port = attr.Ports[0]
	s.reads = uint8(min(maxReads, attr.MaxRespResPerQP, attr.MaxInitDepthPerQP))
	if s.pd, err = s.ca.AllocatePD(ci.PDNormal); err != nil {
		return err
	}
	s.undo = append(s.undo, s.pd.Destroy)
	return s.register(memory)
}

// register creates a region over memory, which is s.buf.
func (s *side) register(memory ci.Memory) (err error) {
	s.mr, err = s.pd.RegisterMR(ci.MRCreate{Memory: memory, Access: ci.LocalWrite | ci.RemoteWrite | ci.RemoteRead})
	if err != nil {
		return err
	}
	s.mem = s.mr.Region()
	s.undo = append(s.undo, s.mr.Destroy)
	return nil
}

// useOwnMemory replaces the buffer by memory that this process has allocated.
func (s *side) useOwnMemory() error {
	s.buf = make([]byte, bufBytes)
	return s.register(ci.Bytes(s.buf))
}

// newSide opens an HCA with one QP.
func newSide(open openPort, c ci.QPCaps) (s *side, err error) {
	if s, err = newHCA(open, bufBytes); err != nil {
		return s, err
	}
	if err := s.equip(c); err != nil {
		return s, errors.Join(err, s.close())
	}
	return s, nil
}

// another returns a further QP with its own CQ on the same HCA. It must be closed before the HCA.
func (s *side) another(c ci.QPCaps) (*side, error) {
	t := *s
	t.undo, t.wake = nil, make(chan struct{}, 1)
	if err := t.equip(c); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return &t, nil
}

// equip creates a CQ and a QP.
func (s *side) equip(c ci.QPCaps) (err error) {
	if s.cq, err = s.pd.CreateCQ(ci.CQCreate{Size: c.SendDepth + c.RecvDepth, OnCompletion: func(any) {
		select {
		case s.wake <- struct{}{}:
		default: // the primary error is already known
		}
	}}); err != nil {
		return err
	}
	s.undo = append(s.undo, s.cq.Destroy)
	if s.qp, err = s.newQP(c); err != nil {
		return err
	}
	s.undo = append(s.undo, s.qp.Destroy)
	return nil
}

func (s *side) newQP(c ci.QPCaps) (ci.QP, error) {
	return s.pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: s.cq, RecvCQ: s.cq, QPCaps: c})
}

// close is idempotent.
func (s *side) close() error {
	var errs []error
	for i := range s.undo {
		errs = append(errs, s.undo[len(s.undo)-1-i]())
	}
	s.undo = nil
	return errors.Join(errs...)
}

// connect moves a QP to RTS.
func (s *side) connect(qp ci.QP, to address) error {
	const (
		timeout = ci.TimeExp(18) // 1 s
		psn     = 100
	)
	av := ci.AVAttr{Port: 1, DLID: to.LID, Global: to.Link == ci.LinkEthernet, GRH: ci.GRH{DGID: to.GID, HopLimit: 64}}
	for _, m := range []struct {
		set  ci.QPField
		attr ci.QPAttr
	}{
		{ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1, Access: ci.RemoteRead | ci.RemoteWrite}},
		{ci.QPFieldsRTR, ci.QPAttr{State: ci.QPRTR, Primary: ci.Path{AV: av}, MTU: min(s.port.MTU, to.MTU),
			DestNum: to.QPN, RQPSN: psn,
			RespRes: s.reads, MinRNRTimer: 1}},
		{ci.QPFieldsRTS, ci.QPAttr{State: ci.QPRTS, SQPSN: psn, RetryCount: 7, RNRRetry: 7, InitDepth: s.reads,
			Primary: ci.Path{AckTimeout: timeout}}},
	} {
		if err := qp.Modify(m.set, m.attr); err != nil {
			return fmt.Errorf("QP %d to %v: %w", qp.Num(), m.attr.State, err)
		}
	}
	return nil
}
