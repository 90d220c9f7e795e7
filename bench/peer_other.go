//go:build !linux

package bench

import "errors"

// rawAddr is the address of a yardstick's socket; there are none here.
type rawAddr struct{}

// peer has nothing to do where there are no cases over UDP.
type peer struct{}

func (*peer) prepare(o order) (answer, func() error, error) {
	return answer{}, nil, errors.New("no order is known on this system: " + o.Do)
}

func (*peer) close() error { return nil }
