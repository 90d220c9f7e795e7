package umad

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// key identifies a request that waits for its response.
type key struct {
	agent *agent
	class mad.Class
	tid   uint32 // lower half: the upper half is the services'
}

// write sends a datagram, with the checks and errors of Linux (ib_umad_write).
func (f *File) write(b []byte) error {
	f.mu.Lock()
	size, isGone := f.headerSize(), f.isGone
	if len(b) < size+leastMAD {
		f.mu.Unlock()
		return syscall.EINVAL
	}
	h := parseHeader(b[:size])
	if h.id >= maxAgents {
		f.mu.Unlock()
		return syscall.EINVAL
	}
	a := f.agents[h.id]
	f.mu.Unlock()
	if a == nil || isGone {
		return syscall.EIO
	}
	data, err := a.datagram(b[size:])
	if err != nil {
		return err
	}
	h.to.AV.Port = f.place.id.Num
	if h.to.QPN > 1 {
		h.to.QKey = ci.QKey(mad.QKeyGSI)
	}
	m := &mads.Message{To: h.to, MAD: data, Timeout: time.Duration(h.timeout) * time.Millisecond,
		Retries: int(h.retries), MaxResponse: maxMessage}
	var common mad.Header
	common.Parse(data)
	isResponse := common.Response() || common.Class == mad.ClassBoard && common.Modifier&1 != 0
	if !isResponse {
		common.TID &= 1<<32 - 1
		common.Put(data)
	}
	if isResponse || h.timeout == 0 {
		return a.sender.Send(m)
	}
	return f.request(a, &h, m, key{a, common.Class, uint32(common.TID)})
}

// datagram returns the message of a write: a datagram, or one of any length if the agent sends it by RMPP.
func (a *agent) datagram(b []byte) ([]byte, error) {
	if a.hasRMPP && mad.Class(b[1]) == a.class {
		var r mad.RMPP
		r.Parse(b[mad.HeaderLen:])
		if r.Active() {
			return bytes.Clone(b), nil
		}
	}
	if len(b) > mad.Size {
		return nil, syscall.EINVAL
	}
	return append(bytes.Clone(b), make([]byte, mad.Size-len(b))...), nil
}

// request sends a request. The response is added to the queue, or the header of the request if there is none.
func (f *File) request(a *agent, h *header, m *mads.Message, k key) error {
	size := int64(len(m.MAD)) + overhead
	if err := f.session.Charge("umad", size); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	err := f.begin(k, stop)
	if err != nil {
		stop()
		f.session.Discharge(size)
		return err
	}
	failed := &packet{header: *h, mad: bytes.Clone(m.MAD[:mad.HeaderLen])}
	failed.header.status = uint32(syscall.ETIMEDOUT)
	err = a.sender.StartDo(ctx, m, func(r *mads.Received, err error) {
		f.end(k, r, err, failed)
		f.session.Discharge(size)
	})
	if err != nil {
		f.mu.Lock()
		delete(f.pending, k)
		f.mu.Unlock()
		stop()
		f.session.Discharge(size)
	}
	return err
}

// begin records a request. Errors: EIO (the file is closed); EINVAL (the agent has such a request); ENOMEM.
func (f *File) begin(k key, stop context.CancelFunc) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.isClosed || f.agents[k.agent.id] != k.agent:
		return syscall.EIO
	case f.pending[k] != nil:
		return syscall.EINVAL
	case len(f.pending) >= maxPending:
		return syscall.ENOMEM
	}
	f.pending[k] = stop
	return nil
}

// end adds the outcome of a request to the queue. Other than in Linux, a request that could not be sent does not leave
// the program without an outcome.
func (f *File) end(k key, r *mads.Received, err error, failed *packet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending[k]()
	delete(f.pending, k)
	switch {
	case err == nil:
		f.push(k.agent, f.received(r))
	case !errors.Is(err, context.Canceled) && !errors.Is(err, accesslayer.ErrClosed):
		f.push(k.agent, failed)
	}
}
