package uverbs

import (
	"syscall"

	"github.com/stretchr/testify/require"

	"ciddk/internal/kproxy/devices"
)

// ioctlAddr is the address of ioctls, and pieceAddr that of the first value that they refer to.
const (
	ioctlAddr = 0x100000
	pieceAddr = 0x200000
	pieceStep = 0x20000
)

// ioctl is an ioctl of a program in the making.
type ioctl struct {
	object, method uint16
	driver         uint32
	reserved       uint64
	attrs          []byte
	memory         []devices.Range
}

// newIoctl returns an ioctl without attributes.
func newIoctl(object, method uint16) *ioctl {
	return &ioctl{object: object, method: method, driver: 14}
}

func (c *ioctl) attr(id uint16, size int, flags uint16, data uint64) *ioctl {
	for _, x := range []uint16{id, uint16(size), flags, 0} {
		c.attrs = ne.AppendUint16(c.attrs, x)
	}
	c.attrs = ne.AppendUint64(c.attrs, data)
	return c
}

// in adds a value.
func (c *ioctl) in(id uint16, b []byte) *ioctl {
	if len(b) <= sizeInline {
		return c.attr(id, len(b), flagMandatory, ne.Uint64(append(append([]byte(nil), b...), make([]byte, 8)...)))
	}
	addr := uint64(pieceAddr + pieceStep*len(c.memory))
	c.memory = append(c.memory, devices.Range{Addr: addr, Size: uint64(len(b)), Data: b})
	return c.attr(id, len(b), flagMandatory, addr)
}

func (c *ioctl) u32(id uint16, n uint32) *ioctl { return c.in(id, ne.AppendUint32(nil, n)) }
func (c *ioctl) u64(id uint16, n uint64) *ioctl { return c.in(id, ne.AppendUint64(nil, n)) }

// object adds an object, or a descriptor.
func (c *ioctl) use(id uint16, handle uint64) *ioctl { return c.attr(id, 0, flagMandatory, handle) }

// out adds room for a value of size bytes at replyAddr plus the number of the attribute times pieceStep.
func (c *ioctl) out(id uint16, size int) *ioctl {
	return c.attr(id, size, flagMandatory, outAddr(id))
}

func outAddr(id uint16) uint64 { return pieceAddr<<4 + uint64(id)*pieceStep }

// bytes returns the header and the attributes.
func (c *ioctl) bytes() []byte {
	var b []byte
	for _, x := range []uint16{uint16(sizeIoctlHeader + len(c.attrs)), c.object, c.method,
		uint16(len(c.attrs) / sizeIoctlAttr)} {
		b = ne.AppendUint16(b, x)
	}
	b = ne.AppendUint64(b, c.reserved)
	return append(ne.AppendUint32(ne.AppendUint32(b, c.driver), 0), c.attrs...)
}

// ioctl executes an ioctl as a carrier does.
func (p *program) ioctl(c *ioctl) *devices.Reply {
	memory := append([]devices.Range{{Addr: ioctlAddr, Data: c.bytes()}}, c.memory...)
	return p.ioctlOf(&devices.Request{IsIoctl: true, Ioctl: verbsIoctl, Operand: ioctlAddr}, memory)
}

func (p *program) ioctlOf(req *devices.Request, memory []devices.Range) *devices.Reply {
	program := &devices.Request{Memory: memory}
	clear(p.mem)
	for range 5 {
		r := p.f.Call(req)
		switch {
		case r.NeedFile:
			f := p.files[uint64(r.Number)]
			if f == nil {
				return devices.Fail(syscall.EBADF)
			}
			req.Number, req.File = r.Number, f
		case len(r.NeedMemory) > 0:
			require.LessOrEqual(p.t, len(r.NeedMemory), devices.MaxRanges)
			req.Memory = nil
			for _, m := range r.NeedMemory {
				b, ok := program.Load(m.Addr, m.Size)
				if !ok {
					return devices.Fail(syscall.EFAULT)
				}
				m.Data = b
				req.Memory = append(req.Memory, m)
			}
		default:
			p.take(r)
			return r
		}
	}
	require.Fail(p.t, "the call needs memory or a descriptor again and again")
	return nil
}

// take does what a reply asks for.
func (p *program) take(r *devices.Reply) {
	if r.Memory != nil {
		p.memory = r.Memory
	}
	for _, s := range r.Stores {
		p.mem[s.Addr] = s.Data
	}
	for _, d := range r.Files {
		p.files[d.Addr] = d.File
		p.t.Cleanup(func() { d.File.Close() })
	}
	p.bell = r.Bell
}

// mustIoctl is ioctl for calls that succeed. It returns the values that were stored, by attribute.
func (p *program) mustIoctl(c *ioctl) map[uint16][]byte {
	p.t.Helper()
	r := p.ioctl(c)
	require.Zero(p.t, r.Errno)
	require.Zero(p.t, r.Result)
	values := map[uint16][]byte{}
	for i := 0; i < len(c.attrs); i += sizeIoctlAttr {
		id := ne.Uint16(c.attrs[i:])
		if b, ok := p.mem[ne.Uint64(c.attrs[i+offAttrData:])]; ok {
			values[id] = b
			at := uint64(ioctlAddr + sizeIoctlHeader + i + offAttrFlags)
			require.EqualValues(p.t, flagMandatory|flagValidOutput, ne.Uint16(p.mem[at]))
		}
		if b, ok := p.mem[uint64(ioctlAddr+sizeIoctlHeader+i+offAttrData)]; ok {
			values[id] = b
		}
	}
	return values
}

// ioctlContext returns a program that has a context, made by an ioctl.
func (r *rig) ioctlContext() *program {
	p := r.open()
	v := p.mustIoctl(newIoctl(typeDevice, 3).out(attrContextVectors, 4).out(attrContextSupport, 8))
	require.NotZero(r.t, ne.Uint32(v[attrContextVectors]))
	require.EqualValues(r.t, supportOptionalAccess, ne.Uint64(v[attrContextSupport]))
	require.NotNil(r.t, p.memory)
	return p
}

// ioctlCQ returns an ioctl that creates a CQ, without a channel.
func ioctlCQ(size uint32) *ioctl {
	return newIoctl(typeCQ, 0).use(attrHandle, 0).u32(attrCQSize, size).u64(attrCQUserHandle, 77).u32(attrCQVector, 0).
		out(attrCQRespSize, 4).out(attrDriverOut, 16)
}
