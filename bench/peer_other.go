//go:build !linux

package bench

import "errors"

// role has no fields where there are no cases of two processes.
type role struct{}

// counts has no fields either.
type counts struct{}

// peer does nothing where there are no cases of two processes.
type peer struct{}

func (*peer) prepare(o order) (answer, func() error, error) {
	return answer{}, nil, errors.New("no order is known on this system: " + o.Do)
}

func (*peer) close() error { return nil }
