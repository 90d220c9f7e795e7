package fw

import (
	"context"
	"errors"
	"fmt"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// isStatus reports whether an error is a command that the firmware rejected with a status.
func isStatus(err error, s prm.Status) bool {
	var e *CommandError
	return errors.As(err, &e) && e.Status == s
}

// checkMCG returns an error for an entry that the table does not have.
func (d *Device) checkMCG(index uint32) error {
	if index >= d.caps.NumMCGs {
		return fmt.Errorf("%w: multicast group entry %d of %d", ErrInvalid, index, d.caps.NumMCGs)
	}
	return nil
}

// ReadMCG returns a multicast group entry: 1<<Caps.LogMCGEntry bytes.
func (d *Device) ReadMCG(ctx context.Context, index uint32) ([]byte, error) {
	if err := d.checkMCG(index); err != nil {
		return nil, err
	}
	b := make([]byte, 1<<d.caps.LogMCGEntry)
	if err := d.Cmd(ctx, prm.CmdReadMCG, Args{Out: b, Modifier: index}); err != nil {
		return nil, err
	}
	if n := prm.MCGMembers.Get(b); n > uint64(d.caps.MaxMcastQPs) {
		return nil, fmt.Errorf("fw: multicast group entry %d has %d members (%d are possible)", index, n,
			d.caps.MaxMcastQPs)
	}
	if next := prm.MCGNext.Get(b); next >= uint64(d.caps.NumMCGs) {
		return nil, fmt.Errorf("fw: multicast group entry %d is followed by entry %d of %d", index, next,
			d.caps.NumMCGs)
	}
	return b, nil
}

// WriteMCG writes a multicast group entry.
func (d *Device) WriteMCG(ctx context.Context, index uint32, entry []byte) error {
	if err := d.checkMCG(index); err != nil {
		return err
	}
	if len(entry) != 1<<d.caps.LogMCGEntry {
		return fmt.Errorf("%w: a multicast group entry of %d bytes", ErrInvalid, len(entry))
	}
	return d.Cmd(ctx, prm.CmdWriteMCG, Args{In: entry, Modifier: index})
}

// HashMGID returns the index of the first entry of a group's chain.
func (d *Device) HashMGID(ctx context.Context, gid ci.GID, isEthernet bool) (uint32, error) {
	a := Args{In: gid[:]}
	if isEthernet && d.caps.HasSteering() {
		a.OpModifier = 1
	}
	v, err := d.CmdImm(ctx, prm.CmdMGIDHash, a)
	if err != nil {
		return 0, err
	}
	if v = v & 0xffff; v >= uint64(d.caps.NumMCGs/2) {
		return 0, fmt.Errorf("fw: the adapter reports hash %d of a group (%d are possible)", v, d.caps.NumMCGs/2)
	}
	return uint32(v), nil
}
