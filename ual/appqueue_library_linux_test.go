package ual_test

import (
	"errors"
	"os"
	"syscall"

	"ciddk/ci"
	"ciddk/ual"
)

// appQueue is the memory of a queue, as the library has allocated it.
type appQueue struct {
	b     []byte
	close func() error
	index uint64 // of the producer, in a send queue; of the consumer, in a CQ
}

// name puts the address of new memory for a queue into private data. The memory is either that of package ual, or the
// library's own.
func name(ub *ci.UserBuffer, isOwn bool) (*appQueue, error) {
	q := new(appQueue)
	if isOwn {
		b, err := syscall.Mmap(-1, 0, ringSize, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS)
		if err != nil {
			return nil, err
		}
		release := func() {}
		if os.Getenv(hideEnv) == "" {
			if release, err = ual.Expose(ci.Bytes(b)); err != nil {
				return nil, err
			}
		}
		q.b, q.close = b, func() error {
			release()
			return syscall.Munmap(b)
		}
	} else {
		m, err := ual.NewMemory(ringSize)
		if err != nil {
			return nil, err
		}
		q.b, q.close = m.Bytes(), m.Close
	}
	ub.Status, ub.In = -1, hostOrder.AppendUint64(nil, ci.Bytes(q.b).Addr())
	return q, nil
}

// appLibrary is the library of appHCA.
func appLibrary() *ci.UserLibrary {
	var bell *os.File
	return &ci.UserLibrary{Name: "appqueue", Version: ci.InterfaceVersion,
		OpenCA: ci.UserFallibleHook[ci.UserOpenCA]{
			Post: func(a *ci.UserOpenCA, ub *ci.UserBuffer, err error) error {
				if err != nil || len(ub.OutFiles) != 1 {
					return errors.Join(err, errors.New("no doorbell"))
				}
				fd, err := syscall.Dup(int(ub.OutFiles[0].Fd()))
				bell, a.CA = os.NewFile(uintptr(fd), "doorbell"), "ca"
				return err
			}},
		AllocatePD: ci.UserFallibleHook[ci.UserAllocatePD]{
			Pre: func(a *ci.UserAllocatePD, _ *ci.UserBuffer) error { a.PD = "pd"; return nil }},
		CreateCQ: ci.UserFallibleHook[ci.UserCreateCQ]{
			Pre: func(a *ci.UserCreateCQ, ub *ci.UserBuffer) error {
				q, err := name(ub, true)
				a.CQ = ci.UserCQ{Handle: q, Poll: q.poll}
				return err
			}},
		CreateQP: ci.UserFallibleHook[ci.UserCreateQP]{
			Pre: func(a *ci.UserCreateQP, ub *ci.UserBuffer) error {
				q, err := name(ub, false)
				a.QP = ci.UserQP{Handle: q, PostSend: func(wrs []ci.SendWR) (int, error) {
					q.put(wrs)
					_, err := bell.Write([]byte{1})
					return len(wrs), err
				}}
				return err
			},
			Post: func(*ci.UserCreateQP, *ci.UserBuffer, error) error { return nil }},
	}
}

// put writes requests and then the index.
func (q *appQueue) put(wrs []ci.SendWR) {
	for i := range wrs {
		wr := &wrs[i]
		b := q.b[ringHeader+q.index%ringDepth*sendEntry:]
		hostOrder.PutUint64(b[0:], wr.ID)
		hostOrder.PutUint64(b[8:], wr.SGL[0].Addr)
		hostOrder.PutUint32(b[16:], wr.SGL[0].Length)
		hostOrder.PutUint32(b[20:], uint32(wr.SGL[0].LKey))
		hostOrder.PutUint64(b[24:], wr.Remote.Addr)
		hostOrder.PutUint32(b[32:], uint32(wr.Remote.RKey))
		q.index++
	}
	q.producer().Store(q.index)
}

// poll reads completions. The driver writes the index last.
func (q *appQueue) poll(wc []ci.WC) (n int, err error) {
	produced := q.producer().Load()
	for ; n < len(wc) && q.index != produced; n++ {
		b := q.b[ringHeader+q.index%ringDepth*doneEntry:]
		wc[n] = ci.WC{ID: hostOrder.Uint64(b), Status: ci.WCStatus(hostOrder.Uint32(b[8:])),
			QPN: ci.QPN(hostOrder.Uint32(b[12:]))}
		q.index++
	}
	return n, nil
}
