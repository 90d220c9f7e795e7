package exchange

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// ErrLeft reports that the peer has ended the link.
var ErrLeft = errors.New("the peer has left (its output may show the reason)")

// A Link carries the messages. Send and Recv are called by one goroutine.
type Link interface {
	// Send sends one message.
	Send(ctx context.Context, b []byte) error
	// Recv receives a message of exactly len(b) bytes. The error is ErrLeft when the peer has left before the message
	// was complete.
	Recv(ctx context.Context, b []byte) error
	// Pending reports whether something of the peer's next message has arrived.
	Pending() bool
	// Done is closed when the peer has left.
	Done() <-chan struct{}
	io.Closer
}

// A Talk is one side of the exchange.
type Talk struct {
	Link   Link
	Client bool // the client sends first in each step
	Binary bool // destinations are structures, as over RDMA CM
}

// Swap is one step: it sends mine and receives theirs.
func (t *Talk) Swap(ctx context.Context, mine, theirs []byte) error {
	if t.Client {
		if err := t.Link.Send(ctx, mine); err != nil {
			return err
		}
		return t.Link.Recv(ctx, theirs)
	}
	if err := t.Link.Recv(ctx, theirs); err != nil {
		return err
	}
	return t.Link.Send(ctx, mine)
}

// Greet exchanges versions, memory layout and path MTU, and returns the values that both sides use.
func (t *Talk) Greet(ctx context.Context, mine Hello) (Hello, error) {
	common := mine
	version := make([]byte, versionLen)
	err := t.Swap(ctx, encodeVersion(), version)
	if err != nil {
		return Hello{}, fmt.Errorf("exchange of versions: %w", err)
	}
	if common.Version, err = parseVersion(version, t.Binary); err != nil {
		return Hello{}, err
	}
	for _, s := range []struct {
		name  string
		value *int
		limit uint32
	}{{"cycle buffer", &common.CycleBuffer, maxCycleBuffer}, {"cache line", &common.CacheLine, maxCacheLine}} {
		b := make([]byte, 4)
		if err := t.Swap(ctx, binary.BigEndian.AppendUint32(nil, uint32(*s.value)), b); err != nil {
			return Hello{}, fmt.Errorf("exchange of the size of the %s: %w", s.name, err)
		}
		theirs, err := parseSize(s.name, b, s.limit)
		if err != nil {
			return Hello{}, err
		}
		*s.value = max(*s.value, theirs)
	}
	b := make([]byte, 2)
	if err := t.Swap(ctx, encodeMTU(mine.MTU), b); err != nil {
		return Hello{}, fmt.Errorf("exchange of the path MTU: %w", err)
	}
	theirs, err := parseMTU(b)
	if err != nil {
		return Hello{}, err
	}
	common.MTU = min(mine.MTU, theirs)
	return common, nil
}

// Dest exchanges a destination.
func (t *Talk) Dest(ctx context.Context, mine Dest) (Dest, error) {
	out, in := mine.text(), make([]byte, textLen)
	parse := parseText
	if t.Binary {
		out, in, parse = mine.binary(), make([]byte, binaryLen), parseBinary
	}
	if err := t.Swap(ctx, out, in); err != nil {
		return Dest{}, fmt.Errorf("exchange of destinations: %w", err)
	}
	return parse(in)
}

// Barrier exchanges destinations that were exchanged before, to synchronize the sides. It returns an error if the peer
// repeats another destination.
func (t *Talk) Barrier(ctx context.Context, mine, theirs Dest) error {
	d, err := t.Dest(ctx, mine)
	if err != nil {
		return err
	}
	if d.QPN != theirs.QPN || d.PSN != theirs.PSN {
		return fmt.Errorf("exchange: the peer repeats QPN %#06x PSN %#06x, want QPN %#06x PSN %#06x: do both sides "+
			"run the same test, with the same -q, -a and -b?",
			uint32(d.QPN), uint32(d.PSN), uint32(theirs.QPN), uint32(theirs.PSN))
	}
	return nil
}

// Report exchanges results.
func (t *Talk) Report(ctx context.Context, mine Report) (Report, error) {
	var theirs [reportFields][8]byte
	for i, field := range mine.encode() {
		if err := t.Swap(ctx, field[:], theirs[i][:]); err != nil {
			return Report{}, fmt.Errorf("exchange of results: %w", err)
		}
	}
	return parseReport(theirs), nil
}

// done is the last message over TCP. It has no reply.
var done = []byte("done\x00")

// Bye ends the exchange. It is no error if the peer has left already.
func (t *Talk) Bye(ctx context.Context) error {
	if t.Binary {
		return nil
	}
	if err := t.Link.Send(ctx, done); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}

// CheckGIDs reports an error if two destinations have addresses of different IP versions.
func CheckGIDs(mine, theirs Dest) error {
	if is4(mine.GID) == is4(theirs.GID) {
		return nil
	}
	return fmt.Errorf("exchange: the peer's GID is %s (%v), the local one %s (%v): both must be of the same IP "+
		"version; see the peer's -x",
		dumpGID(theirs.GID), netip.AddrFrom16(theirs.GID).Unmap(), dumpGID(mine.GID),
		netip.AddrFrom16(mine.GID).Unmap())
}
