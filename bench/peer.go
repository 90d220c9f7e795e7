package bench

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"time"
)

// The other process of a comparison is this program again, identified by its environment. It executes one order at a
// time from its standard input and answers on its standard output. It exits at the end of its input.

const (
	peerEnv   = "CIDDK_BENCH_PEER"
	peerLimit = spinLimit + time.Minute // for one answer
)

// isPeer reports whether this process was started as a peer.
func isPeer() bool { return os.Getenv(peerEnv) != "" }

// An order is a command to a peer.
type order struct {
	Do   string
	Addr netip.Addr // open: the peer's place
	Path string     // open, serve: socket of a daemon; "": the peer has an HCA of its own
	Role role       // make
	Half int        // join, run: the half, numbered in the order of makes
	To   address    // join
	Ops  int        // run
}

// An answer is the result of an order.
type answer struct {
	Err string
	At  address // address of what was made
	S   Sample
	N   counts
}

// servePeer executes orders until in ends.
func servePeer(in io.Reader, out io.Writer) error {
	dec, enc := gob.NewDecoder(in), gob.NewEncoder(out)
	p := new(peer)
	defer p.close()
	for {
		var o order
		if err := dec.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return p.close()
			}
			return err
		}
		// The start of work is announced, so that the other side begins at the same time.
		a, work, err := p.prepare(o)
		if err != nil {
			a.Err = err.Error()
		}
		if err := enc.Encode(&a); err != nil {
			return err
		}
		if work == nil || err != nil {
			continue
		}
		a.S, err = measure(o.Ops, work)
		if err != nil {
			a.Err = err.Error()
		}
		if err := enc.Encode(&a); err != nil {
			return err
		}
	}
}

// remote is a peer process, as seen by the process that started it.
type remote struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	enc    *gob.Encoder
	dec    *gob.Decoder
	cancel context.CancelFunc
}

// startPeer starts this program again, with the prefix enter if there is one.
func startPeer(enter []string) (*remote, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append(slices.Clone(enter), exe)
	ctx, cancel := context.WithCancel(context.Background())
	r := &remote{cmd: exec.CommandContext(ctx, args[0], args[1:]...), cancel: cancel}
	r.cmd.Env = append(os.Environ(), peerEnv+"=1")
	r.cmd.Stderr = os.Stderr
	r.cmd.WaitDelay = 5 * time.Second
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		cancel()
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("starting the peer: %w", err)
	}
	r.enc, r.dec = gob.NewEncoder(r.in), gob.NewDecoder(out)
	return r, nil
}

func (r *remote) tell(o order) error {
	if err := r.enc.Encode(&o); err != nil {
		return fmt.Errorf("peer: %s: %w", o.Do, err)
	}
	return nil
}

// hear waits for an answer. A peer that does not answer in time is killed.
func (r *remote) hear() (answer, error) {
	late := time.AfterFunc(peerLimit, r.cancel)
	defer late.Stop()
	var a answer
	if err := r.dec.Decode(&a); err != nil {
		return a, fmt.Errorf("peer: no answer: %w", err)
	}
	if a.Err != "" {
		return a, fmt.Errorf("peer: %s", a.Err)
	}
	return a, nil
}

// ask calls tell and hear.
func (r *remote) ask(o order) (answer, error) {
	if err := r.tell(o); err != nil {
		return answer{}, err
	}
	return r.hear()
}

// close closes the peer's input and waits for its exit.
func (r *remote) close() error {
	defer r.cancel()
	late := time.AfterFunc(peerLimit, r.cancel)
	defer late.Stop()
	return errors.Join(r.in.Close(), r.cmd.Wait())
}
