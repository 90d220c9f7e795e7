package kproxy

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// Linux destroys what a process has before anyone can see that it has ended. This daemon does it a moment later, so
// that what an ended client still has could stand in the way of the next one: limits of an adapter and of the daemon,
// ports, and what only one process may have.

// maxEnding is how long a request waits for the cleanup of other clients. That of 60,000 objects takes seconds,
// and longer on a busy machine.
const maxEnding = 2 * time.Minute

// errQuota is in the errors of a client's own quota, which the end of another client does not change.
var errQuota = errors.New("the daemon's configuration sets the quotas of clients")

// occupies has the commands that take what another client may have, and that change nothing if they fail.
var occupies = [schema.NumCommands]bool{schema.CmdCreateEventQueue: true, schema.CmdOpenCA: true,
	schema.CmdAllocatePD: true, schema.CmdCreateAV: true, schema.CmdCreateCQ: true, schema.CmdResizeCQ: true,
	schema.CmdCreateSRQ: true, schema.CmdModifySRQ: true, schema.CmdCreateQP: true, schema.CmdAttachMcast: true,
	schema.CmdRegisterMR: true, schema.CmdRegisterSMR: true, schema.CmdCreateMW: true, schema.CmdOpenServices: true,
	schema.CmdBindPort: true, schema.CmdListenPort: true, schema.CmdRegisterAgent: true, schema.CmdCMListen: true,
	schema.CmdCMConnect: true, schema.CmdCMLookup: true}

// isOccupied reports whether a request failed because of what others may have.
func isOccupied(err error) bool {
	if err == nil || errors.Is(err, errQuota) {
		return false
	}
	return errors.Is(err, syscall.EADDRINUSE) || slices.Contains([]ci.Status{ci.InsufficientResources,
		ci.InsufficientMemory, ci.MaxMcastQPsReached, ci.ResourceBusy, ci.InvalidSetting}, ci.StatusOf(err))
}

// AfterEndings executes f, which changes nothing if it fails. If f fails because of what other clients have, and some
// of them have ended, AfterEndings waits for their cleanup, at most two minutes, and executes f once more.
func (c *Session) AfterEndings(f func() error) error { return c.s.afterEndings(c, f) }

// afterEndings is AfterEndings for a client, nil for one that has no session yet.
func (s *Server) afterEndings(c *Session, f func() error) error {
	ended := s.endings.Load()
	err := f()
	if !isOccupied(err) {
		return err
	}
	if s.awaitEndings(c); s.endings.Load() == ended {
		return err
	}
	return f()
}

// awaitEndings waits until the sessions are closed whose clients have ended when it is called.
func (s *Server) awaitEndings(c *Session) {
	var interrupted <-chan struct{}
	if c != nil {
		interrupted = c.ending
	}
	late := make(chan struct{})
	timer := s.cfg.AL.Clock().AfterFunc(maxEnding, func() { close(late) })
	defer timer.Stop()
	for _, x := range s.Sessions() {
		if x == c || !x.hasEnded() {
			continue
		}
		select {
		case <-x.ended:
		case <-interrupted:
			return
		case <-late:
			return
		}
	}
}

// hasEnded reports whether the client has ended: its session is being closed, or will be, since its process has exited.
func (c *Session) hasEnded() bool {
	select {
	case <-c.ending:
		return true
	default:
		return c.proc.hasExited()
	}
}

// BeginClose has other clients wait for the end of Close, which does the same. Front ends that end anything else of the
// client before Close call it first.
func (c *Session) BeginClose() { c.begin.Do(func() { close(c.ending) }) }

// overQuota returns the error of a request beyond a quota of its client.
func overQuota(verb, format string, args ...any) error {
	return &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: fmt.Sprintf(format, args...), Err: errQuota}
}
