package userlib

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/link/direct"
)

// childAnswers is an environment variable: the answers to OpenUser, CreateCQ and CreateQP, in hexadecimal, for a child
// process that uses the queues. Its descriptors 3 and 4 are the memory and the doorbell.
const childAnswers = "CIDDK_TEST_USERLIB"

// TestChild is the child process of TestOtherProcess. It sends messages with inline data and polls their completions,
// and reports every hundredth.
func TestChild(t *testing.T) {
	text := os.Getenv(childAnswers)
	if text == "" {
		t.Skip("only as a child of TestOtherProcess")
	}
	var answers [3][]byte
	for i, h := range strings.Split(text, ",") {
		b, err := hex.DecodeString(h)
		require.NoError(t, err)
		answers[i] = b
	}
	go func() { // standard input ends with the parent
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	files := []*os.File{os.NewFile(3, "memory"), os.NewFile(4, "doorbell")}
	lib := New()
	open := ci.UserOpenCA{}
	require.NoError(t, lib.OpenCA.Post(&open, &ci.UserBuffer{Out: answers[0], OutFiles: files}, nil))
	pd := ci.UserAllocatePD{CA: open.CA}
	require.NoError(t, lib.AllocatePD.Post(&pd, nil, nil))
	cq := ci.UserCreateCQ{PD: pd.PD}
	require.NoError(t, lib.CreateCQ.Post(&cq, &ci.UserBuffer{Out: answers[1]}, nil))
	face := &userCQ{u: cq.CQ}
	qp := ci.UserCreateQP{PD: pd.PD, Create: ci.QPCreate{Type: ci.RC, SendCQ: face, RecvCQ: face, Context: "child",
		QPCaps: ci.QPCaps{SendDepth: 15}}}
	require.NoError(t, lib.CreateQP.Post(&qp, &ci.UserBuffer{Out: answers[2]}, nil))
	var wc [8]ci.WC
	acked := uint64(0)
	for sent := uint64(0); ; {
		if sent-acked < 8 {
			text := fmt.Appendf(nil, "message %d", sent)
			n, err := qp.QP.PostSend([]ci.SendWR{{ID: sent, Flags: ci.SendSignaled, Inline: text}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			sent++
		}
		n, err := cq.CQ.Poll(wc[:])
		require.NoError(t, err)
		for _, w := range wc[:n] {
			require.NoError(t, w.Err())
			require.Equal(t, acked, w.ID)
			require.Equal(t, "child", w.Context)
			if acked++; acked%100 == 0 {
				fmt.Println("acknowledged", acked)
			}
		}
		if n == 0 {
			runtime.Gosched()
		}
	}
}

// TestOtherProcess has another process use the queues, and kills it while it sends: the peer has received every message
// up to then in order, and nothing of the process remains.
func TestOtherProcess(t *testing.T) {
	t.Parallel()
	link := direct.NewLink()
	c, peer := newClient(newDaemon(t, link, nil), ci.RC), newClient(newDaemon(t, link, nil), ci.RC)
	c.connect(peer)
	peer.connect(c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChild$")
	var answers []string
	for _, b := range c.answers[:3] {
		answers = append(answers, hex.EncodeToString(b))
	}
	cmd.Env = append(os.Environ(), childAnswers+"="+strings.Join(answers, ","))
	cmd.ExtraFiles = c.files
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe() // closed by Wait
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())

	lines, stop := make(chan string), make(chan struct{})
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	received := make(chan int)
	go func() { // the peer receives
		n, posted := 0, 0
		var wc [8]ci.WC
		for {
			select {
			case <-stop:
				received <- n
				return
			default:
			}
			for posted-n < 8 {
				_, err := peer.qp.u.PostRecv([]ci.RecvWR{{ID: uint64(posted), SGL: peer.sge(uint64(posted%8*64), 64)}})
				assert.NoError(t, err)
				posted++
			}
			k, err := peer.cq.u.Poll(wc[:])
			assert.NoError(t, err)
			for _, w := range wc[:k] {
				want := fmt.Sprintf("message %d", n)
				assert.NoError(t, w.Err())
				assert.Equal(t, want, string(peer.buf[n%8*64:][:len(want)]))
				n++
			}
			if k == 0 {
				runtime.Gosched()
			}
		}
	}()
	last := 0
	for line := range lines {
		n, err := fmt.Sscanf(line, "acknowledged %d", &last)
		if !assert.Equal(t, 1, n, "%q, %v", line, err) || last >= 1000 {
			break
		}
	}
	require.NoError(t, cmd.Process.Kill())
	for range lines {
	}
	_ = cmd.Wait() // it was killed
	close(stop)
	assert.GreaterOrEqual(t, <-received, last)
	assert.Equal(t, 1000, last)
	c.die()
	peer.die()
}
