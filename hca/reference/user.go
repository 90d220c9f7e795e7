package reference

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/hca/reference/arena"
	"ciddk/internal/rings"
	"ciddk/rvt"
)

// Defaults of Config.UserMemory and Config.UserIdle.
const (
	defaultUserMemory = 1 << 30
	defaultUserIdle   = 50 * time.Microsecond
)

// maxUserAVs is the most address vectors of a process that has a user library, and one more: number 0 is none.
const maxUserAVs = 1<<16 + 1

// userContext is the adapter's part of the context of a client process. With a user library, the queues of the process
// lie in memory that is shared with it, and the adapter's userPoller looks for new work in them.
type userContext struct {
	heap   rings.RXE // queues that are not in shared memory
	poller *userPoller
	mem    *arena.Memory // nil without a user library
	bell   *arena.Doorbell
	page   *arena.Pages
	head   *rings.Header
	done   chan struct{} // closed when await has ended
	abi    uint32        // rings.UserCommand or rings.VerbsCommand: the library of the process; 0: none

	patience patience // the poller's
	errors   errorWatch

	kicks sparse[func()] // by index of the QP
	avs   sparse[rvt.AV] // by number

	mu      sync.Mutex
	lastQP  uint32 // index tried last
	lastSRQ uint32 // number of the last SRQ
	numQPs  int
	numbers map[*rvt.AV]uint32
	lastAV  uint32
}

var _ rvt.UserContext = (*userContext)(nil)

// openUser implements rvt.Ops.OpenUser.
func (h *HCA) openUser(_ ci.Process, ub *ci.UserBuffer) (rvt.UserContext, error) {
	u := &userContext{poller: h.users, errors: errorWatch{clock: h.cfg.Clock}}
	switch {
	case ub.Command == 0 && len(ub.In) == 0: // a process without a user library
		ub.Status, ub.Out = 0, ub.Out[:0]
		return u, nil
	case ub.Command != rings.UserCommand && ub.Command != rings.VerbsCommand || len(ub.In) != 0:
		return nil, &ci.Error{Verb: "CA.OpenUser", Status: ci.InvalidParameter, Detail: fmt.Sprintf(
			"private data with command %d and %d bytes, want those of the user library %s", ub.Command, len(ub.In),
			rings.LibraryName)}
	}
	if err := u.share(int(h.cfg.UserMemory)); err != nil {
		return nil, err
	}
	attr := h.Attr()
	o := rings.UserOpen{Size: uint64(len(u.mem.Bytes())), QPs: rings.MaxUserQPs, Caps: uint64(attr.Caps),
		MaxReadSGEs: uint32(attr.MaxReadSGEs), Atomicity: uint32(attr.Atomicity)}
	u.abi = ub.Command
	data := o.Encode()
	if u.abi == rings.VerbsCommand {
		data = nil
	}
	if err := answer(ub, data); err != nil {
		u.release()
		return nil, err
	}
	ub.OutFiles = []*os.File{u.mem.File(), u.bell.File()}
	go u.await()
	u.poller.add(u)
	return u, nil
}

// share makes the memory that is shared with the process.
func (u *userContext) share(size int) (err error) {
	if u.mem, err = arena.Create(size); err != nil {
		return err
	}
	if u.bell, err = arena.NewDoorbell(); err != nil {
		return errors.Join(err, u.mem.Close())
	}
	u.page, u.head = arena.NewPages(u.mem, rings.HeaderSize), rings.OpenHeader(u.mem.Bytes())
	u.numbers, u.done = map[*rvt.AV]uint32{}, make(chan struct{})
	return nil
}

// release closes the memory and the doorbell.
func (u *userContext) release() {
	_ = u.bell.Close() // nothing to do about an error
	_ = u.mem.Close()
}

// answer puts the result of a verb into the UserBuffer.
func answer(ub *ci.UserBuffer, b []byte) error {
	if cap(ub.Out) < len(b) {
		return &ci.Error{Verb: "UserBuffer", Status: ci.InvalidParameter,
			Detail: fmt.Sprintf("the user library accepts %d bytes, the answer has %d", cap(ub.Out), len(b))}
	}
	ub.Status, ub.Out = 0, append(ub.Out[:0], b...)
	return nil
}

// nothing answers a verb without a result.
func nothing(ub *ci.UserBuffer) error {
	if ub != nil {
		ub.Status, ub.Out = 0, ub.Out[:0]
	}
	return nil
}

// isShared reports whether the queues of a create shall lie in shared memory.
func (u *userContext) isShared(ub *ci.UserBuffer) bool {
	return u.mem != nil && ub != nil && ub.Command == u.abi
}

// isPlain reports whether the process has the stock library of Linux Soft-RoCE, whose queues have no control words.
func (u *userContext) isPlain() bool { return u.abi == rings.VerbsCommand }

// control returns the number of bytes of control words of a queue.
func (u *userContext) control() int {
	if u.isPlain() {
		return 0
	}
	return rings.ControlSize
}

// newSend returns a send queue over b.
func (u *userContext) newSend(b []byte, s rings.Shape, free func()) *rings.SharedSend {
	if u.isPlain() {
		return rings.NewPlainSend(b, s, u.avs.get, free)
	}
	return rings.NewSharedSend(b, s, u.avs.get, free)
}

// newCompletion returns a completion queue over b.
func (u *userContext) newCompletion(b []byte, s rings.Shape, free func()) *rings.SharedCompletion {
	if u.isPlain() {
		return rings.NewPlainCompletion(b, s, free)
	}
	return rings.NewSharedCompletion(b, s, free)
}

// describeCQ returns the place of a completion queue as the library of the process expects it.
func (u *userContext) describeCQ(at *rings.UserQueue) []byte {
	if u.isPlain() {
		return at.AppendVerbs(nil, 0)
	}
	return at.EncodeCQ()
}

// describeSRQ returns the place of an SRQ that has moved as the library of the process expects it.
func (u *userContext) describeSRQ(at *rings.UserQueue) []byte {
	if u.isPlain() {
		return at.AppendVerbs(nil, 0)
	}
	return at.EncodeSRQ()
}

// place allocates shared memory for a queue. free releases it.
func (u *userContext) place(s rings.Shape, control int) (q rings.UserQueue, b []byte, free func(), err error) {
	n := s.Bytes() + control
	off, b, err := u.page.Alloc(n)
	if err != nil {
		return q, nil, nil, &ci.Error{Verb: "UserContext", Status: ci.InsufficientResources, Err: err,
			Detail: "queues in shared memory (raise Config.UserMemory; in ddkd, user-memory of the adapter)"}
	}
	return rings.UserQueue{Offset: off, Size: uint64(n), Shape: s}, b, sync.OnceFunc(func() { u.page.Free(off) }), nil
}

// userRecv and userCompletion are queues in shared memory, with their place.
type (
	userRecv struct {
		*rings.SharedRecv
		u  *userContext
		at rings.UserQueue
	}
	userCompletion struct {
		*rings.SharedCompletion
		u  *userContext
		at rings.UserQueue
	}
)

// SendRing implements rvt.Rings.
func (u *userContext) SendRing(depth, sge, inline int, ub *ci.UserBuffer) (rvt.SendRing, error) {
	if !u.isShared(ub) {
		return u.heap.SendRing(depth, sge, inline, ub)
	}
	s, err := rings.SendShape(depth, sge, inline)
	if err != nil {
		return nil, err
	}
	index, ok := u.takeIndex()
	if !ok {
		return nil, &ci.Error{Verb: "PD.CreateQP", Status: ci.InsufficientResources,
			Detail: fmt.Sprintf("the process has %d QPs with shared queues, which is the limit", rings.MaxUserQPs)}
	}
	at, b, free, err := u.place(s, u.control())
	if err != nil {
		u.dropIndex(index)
		return nil, err
	}
	r := u.newSend(b, s, sync.OnceFunc(func() { u.dropIndex(index); free() }))
	return &userSend{SharedSend: r, u: u, at: at, index: index}, nil
}

// RecvRing implements rvt.Rings.
func (u *userContext) RecvRing(depth, sge int, ub *ci.UserBuffer) (rvt.RecvRing, error) {
	if !u.isShared(ub) {
		return u.heap.RecvRing(depth, sge, ub)
	}
	s, err := rings.RecvShape(depth, sge)
	if err != nil {
		return nil, err
	}
	at, b, free, err := u.place(s, 0)
	if err != nil {
		return nil, err
	}
	return &userRecv{rings.NewSharedRecv(b, s, free), u, at}, nil
}

// CompletionRing implements rvt.Rings.
func (u *userContext) CompletionRing(size int, ub *ci.UserBuffer) (rvt.CompletionRing, error) {
	if !u.isShared(ub) {
		return u.heap.CompletionRing(size, ub)
	}
	s, err := rings.CompletionShape(size)
	if err != nil {
		return nil, err
	}
	at, b, free, err := u.place(s, u.control())
	if err != nil {
		return nil, err
	}
	return &userCompletion{u.newCompletion(b, s, free), u, at}, nil
}

var (
	_ rvt.ResizedRing = (*userRecv)(nil)
	_ rvt.ResizedRing = (*userCompletion)(nil)
)

// ResizeShared implements rvt.ResizedRing.
func (r *userRecv) ResizeShared(depth int, ub *ci.UserBuffer) error {
	if !r.u.isShared(ub) {
		return r.Resize(depth)
	}
	s, err := rings.RecvShape(depth, int(r.at.Shape.SGE))
	if err != nil {
		return err
	}
	at, b, free, err := r.u.place(s, 0)
	if err != nil {
		return err
	}
	if err := answerMoved(ub, r.u.describeSRQ(&at), func() error { return r.Move(b, s, free) }); err != nil {
		free()
		return err
	}
	r.at = at
	return nil
}

// ResizeShared implements rvt.ResizedRing.
func (r *userCompletion) ResizeShared(size int, ub *ci.UserBuffer) error {
	if !r.u.isShared(ub) {
		return r.Resize(size)
	}
	s, err := rings.CompletionShape(size)
	if err != nil {
		return err
	}
	at, b, free, err := r.u.place(s, r.u.control())
	if err != nil {
		return err
	}
	if err := answerMoved(ub, r.u.describeCQ(&at), func() error { return r.Move(b, s, free) }); err != nil {
		free()
		return err
	}
	r.at = at
	return nil
}

// answerMoved answers a verb that moves a queue, if the answer has room and move succeeds.
func answerMoved(ub *ci.UserBuffer, b []byte, move func() error) error {
	if err := answer(ub, b); err != nil {
		return err
	}
	if err := move(); err != nil {
		ub.Out = ub.Out[:0]
		return err
	}
	return nil
}

// AddCQ implements rvt.UserContext.
func (u *userContext) AddCQ(ring rvt.CompletionRing, ub *ci.UserBuffer) error {
	if r, ok := ring.(*userCompletion); ok {
		return answer(ub, u.describeCQ(&r.at))
	}
	return nothing(ub)
}

// AddSRQ implements rvt.UserContext.
func (u *userContext) AddSRQ(ring rvt.RecvRing, ub *ci.UserBuffer) error {
	r, ok := ring.(*userRecv)
	switch {
	case !ok:
		return nothing(ub)
	case !u.isPlain():
		return answer(ub, r.at.EncodeSRQ())
	}
	u.mu.Lock()
	u.lastSRQ++
	n := u.lastSRQ
	u.mu.Unlock()
	return answer(ub, rings.EncodeVerbsSRQ(&r.at, n))
}

// AddQP implements rvt.UserContext.
func (u *userContext) AddQP(num ci.QPN, sq rvt.SendRing, rq rvt.RecvRing, kick func(), ub *ci.UserBuffer) error {
	s, ok := sq.(*userSend)
	if !ok {
		return nothing(ub)
	}
	a := rings.UserQP{Send: s.at, Index: s.index, Num: uint32(num)}
	r, _ := rq.(*userRecv)
	if r != nil {
		a.RecvOffset, a.Recv = r.at.Offset, r.at.Shape
	}
	data := a.Encode()
	if u.isPlain() {
		data = a.EncodeVerbs()
		s.recv = r
	}
	if err := answer(ub, data); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kicks.set(s.index, &kick)
	return nil
}

// reserved is in kicks for an index that is taken and has no QP yet.
var reserved = func() {}

// takeIndex takes an index for a QP.
func (u *userContext) takeIndex() (uint32, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.numQPs == rings.MaxUserQPs {
		return 0, false
	}
	for u.kicks.get(u.lastQP) != nil {
		u.lastQP = (u.lastQP + 1) % rings.MaxUserQPs
	}
	u.kicks.set(u.lastQP, &reserved)
	u.numQPs++
	return u.lastQP, true
}

func (u *userContext) dropIndex(i uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kicks.set(i, nil)
	u.numQPs--
}

// AddAV implements rvt.UserContext.
func (u *userContext) AddAV(av *rvt.AV, ub *ci.UserBuffer) error {
	if !u.isShared(ub) {
		return nothing(ub)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.numbers) == maxUserAVs-1 {
		return &ci.Error{Verb: "PD.CreateAV", Status: ci.InsufficientResources,
			Detail: fmt.Sprintf("the process has %d address vectors for its user library, which is the limit",
				maxUserAVs-1)}
	}
	n := u.lastAV
	for {
		if n = (n + 1) % maxUserAVs; n != 0 && u.avs.get(n) == nil {
			break
		}
	}
	a := rings.UserAV{Number: n}
	data := a.Encode()
	if u.isPlain() {
		data = a.EncodeVerbs()
	}
	if err := answer(ub, data); err != nil {
		return err
	}
	u.avs.set(n, av)
	u.numbers[av], u.lastAV = n, n
	return nil
}

// RemoveAV implements rvt.UserContext.
func (u *userContext) RemoveAV(av *rvt.AV) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n, ok := u.numbers[av]; ok {
		delete(u.numbers, av)
		u.avs.set(n, nil)
	}
}

// Settle implements rvt.UserContext.
func (u *userContext) Settle() {
	if u.mem == nil {
		return
	}
	for range rings.MaxUserQPs { // a process could mark QPs for ever
		if !u.poller.takeOf(u) {
			return
		}
	}
}

// Close implements rvt.UserContext.
func (u *userContext) Close() {
	if u.mem == nil {
		return
	}
	u.poller.remove(u)
	u.errors.close()
	_ = u.bell.Close() // which ends Wait; nothing to do about an error
	<-u.done
	_ = u.mem.Close()
}
