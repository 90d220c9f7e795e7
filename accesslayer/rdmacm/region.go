package rdmacm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/ci"
)

// Region describes memory of an application for its peers, which read and write it through Conn. It can be sent as
// bytes (MarshalBinary) and compared. The zero Region is empty.
type Region struct {
	Addr   uint64
	Length uint64
	RKey   ci.Key
}

// RegionLen is the length in bytes of a Region in binary form.
const RegionLen = 20

// Slice returns the n bytes of the region at offset off. It fails if they are not within the region.
func (r Region) Slice(off, n uint64) (Region, error) {
	if off > r.Length || n > r.Length-off {
		return Region{}, failure.Invalid("Region.Slice", "%d bytes at offset %d, and the region has %d", n, off,
			r.Length)
	}
	return Region{Addr: r.Addr + off, Length: n, RKey: r.RKey}, nil
}

// AppendBinary implements encoding.BinaryAppender: address, length and R_Key, big-endian, RegionLen bytes.
func (r Region) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint64(b, r.Addr)
	b = binary.BigEndian.AppendUint64(b, r.Length)
	return binary.BigEndian.AppendUint32(b, uint32(r.RKey)), nil
}

// MarshalBinary implements encoding.BinaryMarshaler: see AppendBinary.
func (r Region) MarshalBinary() ([]byte, error) { return r.AppendBinary(make([]byte, 0, RegionLen)) }

// UnmarshalBinary implements encoding.BinaryUnmarshaler. It fails if b is not a Region, or if the region exceeds the
// address space. It cannot check whether the peer has the region and allows the access.
func (r *Region) UnmarshalBinary(b []byte) error {
	if len(b) != RegionLen {
		return failure.Invalid("Region.UnmarshalBinary", "the data has %d bytes, want %d", len(b), RegionLen)
	}
	u := Region{Addr: binary.BigEndian.Uint64(b), Length: binary.BigEndian.Uint64(b[8:]),
		RKey: ci.Key(binary.BigEndian.Uint32(b[16:]))}
	if u.Addr+u.Length < u.Addr {
		return failure.Invalid("Region.UnmarshalBinary", "%d bytes at address %#x exceed the address space", u.Length,
			u.Addr)
	}
	*r = u
	return nil
}

// Memory is storage of the application that peers may read or write, and that ReadInto and WriteFrom of Conn transfer
// without a copy. It is registered with an HCA when it is first used there. All methods may be called concurrently.
type Memory struct {
	m       *Manager
	storage ci.Memory
	access  ci.Access

	mu     sync.Mutex
	closed bool
	mrs    map[*accesslayer.PD]*accesslayer.MR
}

// NewMemory makes storage available to peers, with the rights in access: ci.RemoteRead, ci.RemoteWrite and
// ci.RemoteAtomic. The storage belongs to the caller, such as ci.Bytes(b). No lock orders accesses of the
// application and those of its peers: a READ of bytes that change meanwhile may return a mix, which a checksum detects
// (examples/kv). Close the Memory before the Manager.
func (m *Manager) NewMemory(storage ci.Memory, access ci.Access) *Memory {
	if m.memoryAddr != nil {
		storage = placed{storage, m.memoryAddr(storage.Len())}
	}
	return &Memory{m: m, storage: storage, access: access | ci.LocalWrite, mrs: map[*accesslayer.PD]*accesslayer.MR{}}
}

// placed is storage with an address of its own: see OpenConfig.MemoryAddr.
type placed struct {
	ci.Memory
	addr uint64
}

func (p placed) Addr() uint64 { return p.addr }

// Region returns the description of the memory for the peer of a connection. It is valid for all connections through
// the same HCA, until Close. Errors: net.ErrClosed, those of accesslayer.PD.NewMR.
func (m *Memory) Region(c *Conn) (Region, error) {
	r, err := m.region(c)
	return Region{Addr: r.Addr, Length: r.Length, RKey: r.RKey}, err
}

func (m *Memory) region(c *Conn) (ci.Region, error) {
	pd, err := c.id.PD()
	if err != nil {
		return ci.Region{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ci.Region{}, &ci.Error{Verb: "Memory.Region", Status: ci.InvalidMRHandle,
			Detail: "the memory is closed", Err: accesslayer.ErrClosed}
	}
	mr := m.mrs[pd]
	if mr == nil {
		if mr, err = pd.NewMR(ci.MRCreate{Memory: m.storage, Access: m.access}); err != nil {
			return ci.Region{}, fmt.Errorf("rdmacm: registering memory: %w", err)
		}
		m.mrs[pd] = mr
	}
	return mr.Region(), nil
}

// Close ends the access of peers. When it has returned, no peer reads or writes the memory any more. It is idempotent.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	var errs []error
	for _, mr := range slices.Collect(maps.Values(m.mrs)) {
		errs = append(errs, failure.UnlessGone(mr.Destroy()))
	}
	clear(m.mrs)
	return errors.Join(errs...)
}
