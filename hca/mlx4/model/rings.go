package model

import (
	"errors"

	"ciddk/ci"
	"ciddk/rvt"
)

// rings makes the queues of the transport's objects, which are in the memory of the host.
type rings struct{ m *Model }

var errNoQueue = errors.New("model: a queue without a guest's context")

func (r rings) SendRing(_, _, _ int, _ *ci.UserBuffer) (rvt.SendRing, error) { return nil, errNoQueue }
func (r rings) RecvRing(_, _ int, _ *ci.UserBuffer) (rvt.RecvRing, error)    { return nil, errNoQueue }
func (r rings) CompletionRing(_ int, _ *ci.UserBuffer) (rvt.CompletionRing, error) {
	return nil, errNoQueue
}
