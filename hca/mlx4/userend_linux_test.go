package mlx4_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/mlx4/userlib"
	"ciddk/internal/mlx4/prm"
	"ciddk/kproxy/native"
	"ciddk/ual"
)

// TestUserDaemonExits ends the daemon, and closes the CA before its queues. The memory stays mapped until the queues
// are destroyed, so that the data path fails instead of the process.
func TestUserDaemonExits(t *testing.T) {
	d := newDaemon(t)
	p := d.start()
	srq, err := p.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
	require.NoError(t, err)
	p.exchange("before")
	d.server.Close()
	require.NoError(t, p.ca.Destroy())
	touch := func() {
		_, _ = p.post(p.a, 1)
		_, _ = p.a.PostRecv(make([]ci.RecvWR, 1))
		_, _ = srq.PostRecv(make([]ci.RecvWR, 1))
		_, _ = p.cq.Poll(make([]ci.WC, 4))
		_, _ = p.cq.Peek()
		_ = p.cq.Notify(ci.NotifyNext)
	}
	touch()
	for range 2 { // all calls succeed
		for _, o := range []ci.Object{p.a, p.b, srq, p.cq} {
			require.NoError(t, o.Destroy())
			touch()
		}
	}
	_, err = p.post(p.a, 1)
	require.ErrorIs(t, err, ual.ErrDisconnected)
	_, err = p.cq.Poll(make([]ci.WC, 4)) // completions from before the end would be returned
	require.ErrorIs(t, err, ci.InvalidCQHandle)
	_, err = srq.PostRecv(make([]ci.RecvWR, 1))
	require.ErrorIs(t, err, ual.ErrDisconnected)
}

// TestUserDestroyInCallback has the callback of a QP post, and that of a CQ poll, while Destroy waits for them.
func TestUserDestroyInCallback(t *testing.T) {
	lib := userlib.New()
	begun := make(chan struct{})
	pre := lib.DestroyQP.Pre
	lib.DestroyQP.Pre = func(a *ci.UserDestroyQP, ub *ci.UserBuffer) error {
		defer close(begun)
		return pre(a, ub)
	}
	inside, posted := make(chan struct{}), make(chan error, 1)
	var app atomic.Pointer[app]
	var once sync.Once
	p := newDaemon(t).startWith(lib, func(ci.Event) {
		once.Do(func() {
			close(inside)
			<-begun
			_, err := app.Load().b.PostRecv(make([]ci.RecvWR, 1))
			posted <- err
		})
	})
	app.Store(p)
	sge := p.mr.Region().SGE(0, 64)
	_, err := p.a.PostSend([]ci.SendWR{{Op: ci.OpWrite, SGL: []ci.SGE{sge}, Remote: ci.Remote{Addr: sge.Addr}}})
	require.NoError(t, err, "without a key: b has an error event")
	within(t, inside, "no event")
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.NoError(t, p.b.Destroy())
	}()
	within(t, done, "Destroy and the callback wait for each other")
	require.ErrorIs(t, <-posted, ci.InvalidQPHandle)
}

// within waits for a channel that is closed.
func within(t *testing.T, c <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(userWait):
		require.FailNow(t, otherwise)
	}
}

// TestUserDestroyBusy checks that queues whose Destroy fails go on.
func TestUserDestroyBusy(t *testing.T) {
	p := newDaemon(t).start()
	srq, err := p.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
	require.NoError(t, err)
	qp, err := p.pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: p.cq, RecvCQ: p.cq, SRQ: srq,
		QPCaps: ci.QPCaps{SendDepth: 1, SendSGE: 1}})
	require.NoError(t, err)
	require.ErrorIs(t, p.cq.Destroy(), ci.ResourceBusy)
	require.ErrorIs(t, srq.Destroy(), ci.ResourceBusy)
	p.exchange("after")
	n, err := srq.PostRecv(make([]ci.RecvWR, 2))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.NoError(t, qp.Destroy())
	require.NoError(t, srq.Destroy())
	require.Error(t, srq.Destroy())
	_, err = srq.PostRecv(make([]ci.RecvWR, 1))
	require.ErrorIs(t, err, ci.InvalidSRQHandle)
}

// TestUserConcurrent posts, polls, arms and resizes at once. Every request completes once. Then a QP is destroyed while
// another goroutine posts to it.
func TestUserConcurrent(t *testing.T) {
	p := newDaemon(t).start()
	const total = 400
	var completed, isDone atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for posted := 0; posted < total; {
			n, err := p.post(p.a, min(3, total-posted))
			if err != nil && !assert.ErrorIs(t, err, ci.InsufficientResources) {
				return
			}
			posted += n
			runtime.Gosched()
		}
	})
	for range 2 {
		wg.Go(func() {
			wc := make([]ci.WC, 5)
			for completed.Load() < total {
				n, err := p.cq.Poll(wc)
				if !assert.NoError(t, err) {
					return
				}
				for _, w := range wc[:n] {
					assert.NoError(t, w.Err())
					assert.Equal(t, "a", w.Context)
				}
				completed.Add(int64(n))
				runtime.Gosched()
			}
			isDone.Store(1)
		})
	}
	wg.Go(func() {
		for i := 0; isDone.Load() == 0; i++ {
			if _, err := p.cq.Resize(ci.CQResize{Size: 16 << (i % 4)}); err != nil {
				assert.ErrorIs(t, err, ci.Overflow) // the polls are slow
			}
			assert.NoError(t, p.cq.Notify(ci.NotifyNext))
		}
	})
	wg.Wait()
	require.EqualValues(t, total, completed.Load())

	require.NoError(t, p.a.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}))
	started := make(chan struct{})
	var once sync.Once
	wg.Go(func() {
		for {
			_, err := p.post(p.a, 1)
			once.Do(func() { close(started) })
			if ci.StatusOf(err) == ci.InvalidQPHandle {
				return
			}
			_, err = p.cq.Poll(make([]ci.WC, 8))
			assert.NoError(t, err)
		}
	})
	<-started
	require.NoError(t, p.a.Destroy())
	wg.Wait()
}

// await waits for an event, and passes over others, such as those of the port.
func (p *app) await(want ci.EventType) {
	p.t.Helper()
	deadline := time.After(userWait)
	for {
		select {
		case e := <-p.events:
			if e == want {
				return
			}
		case <-deadline:
			require.FailNow(p.t, "no event", "%v", want)
		}
	}
}

// requireNo requires that an event has not come.
func (p *app) requireNo(event ci.EventType, why string) {
	p.t.Helper()
	for len(p.events) > 0 {
		require.NotEqual(p.t, event, <-p.events, why)
	}
}

// TestUserBadCompletion has the adapter write a completion of an unknown QP. The application has an event of its CQ,
// and its requests go on.
func TestUserBadCompletion(t *testing.T) {
	d := newDaemon(t)
	p := d.start()
	cqs := d.m.CQs()
	require.NotEmpty(t, cqs)
	var e [prm.CQESize]byte
	prm.CQEQPN.Put(e[:], 0xabcdef)
	for range 3 {
		d.m.ForgeCompletion(cqs[len(cqs)-1], e)
	}
	p.exchange("meanwhile")
	p.await(ci.EventCQError)
	for range 3 {
		p.exchange("after")
	}
	p.requireNo(ci.EventCQError, "one event for each CQ")
}

// TestUserWrongSend has the adapter complete requests of an application with another opcode or length than theirs.
func TestUserWrongSend(t *testing.T) {
	d := newDaemon(t)
	p := d.start()
	cqs := d.m.CQs()
	require.Len(t, cqs, 1)
	require.NoError(t, p.a.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPSQD}))
	lieAboutSends(t, d.m, cqs[0], p.cq, p.a, p.mr.Region().SGE(0, 8), func() {})
	p.await(ci.EventCQError)
	require.NoError(t, p.a.Modify(ci.ToReset()))
}

// TestUserManyBad has the adapter write bad completions without end, as fast as it can. The requests of the application
// go on.
func TestUserManyBad(t *testing.T) {
	d := newDaemon(t)
	p := d.start()
	cqs := d.m.CQs()
	require.Len(t, cqs, 1)
	const spare = 8 // more than an exchange has completions
	end := flood(d.m, cqs[0], spare, uint64(p.a.Num()))
	defer end()
	for range 50 {
		p.exchange("meanwhile")
	}
	end()
	p.await(ci.EventCQError)
	p.requireNo(ci.EventCQError, "one event for each CQ")
	p.exchange("after")
}

// TestUserUnmapped registers memory, and takes away its pages while requests name it: those complete with an error, and
// another application is not affected. The addresses are not unmapped, so that nothing else of this process is mapped
// there.
func TestUserUnmapped(t *testing.T) {
	d := newDaemon(t)
	other := d.start()
	for name, isTarget := range map[string]bool{"source": false, "target": true} {
		p := d.start()
		const size = 16 << 10
		f, err := os.Create(filepath.Join(t.TempDir(), "registered"))
		require.NoError(t, err)
		require.NoError(t, f.Truncate(size))
		mem, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		require.NoError(t, err)
		t.Cleanup(func() {
			assert.NoError(t, syscall.Munmap(mem))
			assert.NoError(t, f.Close())
		})
		mr, err := p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(mem), Access: ci.LocalWrite | ci.RemoteWrite})
		require.NoError(t, err)
		from, to := mr, p.mr
		if isTarget {
			from, to = p.mr, mr
		}
		wr := ci.SendWR{Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: []ci.SGE{from.Region().SGE(0, 4096)},
			Remote: ci.Remote{Addr: to.Region().Addr, RKey: to.Region().RKey}}
		_, err = p.a.PostSend([]ci.SendWR{wr})
		require.NoError(t, err)
		require.NoError(t, p.poll(1)[0].Err())
		require.NoError(t, f.Truncate(0))
		_, err = p.a.PostSend([]ci.SendWR{wr})
		require.NoError(t, err)
		require.Error(t, p.poll(1)[0].Err(), name)
		other.exchange("meanwhile")
		require.NoError(t, mr.Destroy())
	}
}

// childPath is an environment variable: the socket of the daemon, for a child process.
const childPath = "CIDDK_TEST_MLX4_DAEMON"

// TestUserChild is the child process of TestUserKilled. It exchanges messages with itself.
func TestUserChild(t *testing.T) {
	path := os.Getenv(childPath)
	if path == "" {
		t.Skip("only as a child of TestUserKilled")
	}
	go func() { // standard input ends with the parent
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	lib := userlib.New()
	c, err := ual.Dial(ual.Config{Path: path, Libraries: []*ci.UserLibrary{lib}})
	require.NoError(t, err)
	p := newApp(t, c, lib, nil)
	for i := 0; ; i++ {
		p.exchange(fmt.Sprintf("message %d", i))
		fmt.Println("exchanged", i)
	}
}

// TestUserKilled kills another process in the middle of its requests. Nothing of it remains, and another application
// goes on.
func TestUserKilled(t *testing.T) {
	d := newDaemon(t)
	other := d.start()
	live := d.h.Live()
	path := filepath.Join(t.TempDir(), "daemon")
	l, err := native.Listen(path)
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = d.server.Serve(l) // until the listener is closed
	}()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), userWait)
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestUserChild$")
		cmd.Env = append(os.Environ(), childPath+"="+path)
		cmd.Stderr = os.Stderr
		_, err := cmd.StdinPipe() // closed by Wait
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for i := 0; i < 20 && assert.True(t, lines.Scan(), "the child has ended"); i++ {
		}
		require.NoError(t, cmd.Process.Kill())
		_, _ = io.Copy(io.Discard, out)
		require.Error(t, cmd.Wait())
		cancel()
		require.Eventually(t, func() bool { return assert.ObjectsAreEqual(live, d.h.Live()) }, userWait,
			time.Millisecond, "objects of the process remain")
		other.exchange("meanwhile")
	}
	require.NoError(t, l.Close())
	<-served
}
