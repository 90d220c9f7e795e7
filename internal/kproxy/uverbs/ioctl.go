package uverbs

import (
	"errors"
	"syscall"

	"ciddk/internal/kproxy/devices"
)

// The layouts of the ioctl interface (rdma/rdma_user_ioctl_cmds.h): a header, and an array of attributes. An attribute
// has a u16 number, a u16 length, u16 flags, two bytes for enumerations, and a u64: the value itself, if it has at most
// 8 bytes and the program writes it, or its address.
const (
	verbsIoctl      = 0xc0181b01
	sizeIoctlHeader = 24
	sizeIoctlAttr   = 16
	maxIoctl        = 4096
	offAttrFlags    = 4
	offAttrData     = 8
	sizeInline      = 8

	flagMandatory   = 1
	flagValidOutput = 2
)

// attrType is the type of an attribute.
type attrType uint8

const (
	attrIn      attrType = 1 + iota
	attrOut              // the address of a value that the command writes
	attrNew              // an object that the command creates
	attrObject           // an object that the command uses
	attrChannel          // the descriptor of a completion event channel
	attrNewFile          // a descriptor that the command creates
)

// attrSpec declares an attribute of a method.
type attrSpec struct {
	typ         attrType
	kind        kind // of an object
	least, most int  // bytes of a value
	isOpen      bool // longer values are valid if their additional bytes are zero
	isOptional  bool
}

// ioctlMethod declares a method: its attributes by their numbers, and the function that executes it.
type ioctlMethod struct {
	attrs      map[uint16]attrSpec
	hasContext bool // the file needs a context
	run        func(f *File, c *ioctlCall) error
}

// attribute is an attribute of a call.
type attribute struct {
	spec attrSpec
	at   uint64 // address of the attribute
	size int
	data uint64  // the last field
	in   []byte  // value of an attrIn, zero-extended
	obj  *object // of an attrObject
}

// ioctlCall is a method in execution.
type ioctlCall struct {
	call
	attrs   map[uint16]*attribute
	needs   []devices.Range
	isShort bool // the request lacks memory of the program
}

// errShort reports that the request lacks memory of the program.
var errShort = errors.New("uverbs: memory of the program is needed")

// ioctl executes an ioctl.
func (f *File) ioctl(r *devices.Request) *devices.Reply {
	if r.Ioctl != verbsIoctl {
		return devices.Fail(syscall.ENOTTY)
	}
	c := &ioctlCall{call: call{request: r}, attrs: map[uint16]*attribute{}}
	m, err := c.decode(f)
	if err == nil {
		err = m.run(f, c)
	}
	switch {
	case errors.Is(err, errShort):
		return &devices.Reply{NeedMemory: c.needs}
	case c.reply.NeedFile:
		return &c.reply
	case err != nil:
		for _, d := range c.descriptors() {
			d.File.Close()
		}
		return devices.Fail(errnoOf(err))
	}
	if a := c.attrs[attrDriverOut]; a != nil {
		c.store(a, c.out)
	}
	return &c.reply
}

// load returns memory of the program. If the request does not have it, it returns nil and sets isShort.
func (c *ioctlCall) load(addr uint64, size int) []byte {
	c.needs = append(c.needs, devices.Range{Addr: addr, Size: uint64(size)})
	b, ok := c.request.Load(addr, uint64(size))
	if !ok {
		c.isShort = true
	}
	return b
}

// decode decodes a request, with the checks and errors of Linux (ib_uverbs_ioctl, ib_uverbs_run_method).
func (c *ioctlCall) decode(f *File) (*ioctlMethod, error) {
	base := c.request.Operand
	h := c.load(base, sizeIoctlHeader)
	if c.isShort {
		return nil, errShort
	}
	size, count := int(ne.Uint16(h)), int(ne.Uint16(h[6:]))
	if size > maxIoctl || size != sizeIoctlHeader+count*sizeIoctlAttr {
		return nil, syscall.EINVAL
	}
	if ne.Uint64(h[8:]) != 0 || ne.Uint32(h[20:]) != 0 {
		return nil, syscall.EPROTONOSUPPORT
	}
	if ne.Uint32(h[16:]) != f.dev.provider.Driver {
		return nil, syscall.EINVAL
	}
	m := ioctlMethods[methodID{ne.Uint16(h[2:]), ne.Uint16(h[4:])}]
	if m == nil {
		return nil, syscall.EPROTONOSUPPORT
	}
	c.needs = nil
	b := c.load(base, size)
	if c.isShort {
		return nil, errShort
	}
	for at := sizeIoctlHeader; at < size; at += sizeIoctlAttr {
		if err := c.add(f, m, b[at:at+sizeIoctlAttr], base+uint64(at)); err != nil {
			return nil, err
		}
	}
	if err := c.checkNeeds(); err != nil {
		return nil, err
	}
	if err := c.findChannel(f); err != nil {
		return nil, err
	}
	return m, c.check(f, m)
}

// checkNeeds returns errShort if memory is needed. Error: ENOMEM: it is more than a request can have.
func (c *ioctlCall) checkNeeds() error {
	if !c.isShort {
		return nil
	}
	total := uint64(0)
	for _, n := range c.needs {
		total += n.Size
	}
	if total > devices.MaxMemory || len(c.needs) > devices.MaxRanges {
		return syscall.ENOMEM
	}
	return errShort
}

// check checks that all attributes are there that the method needs, and takes over the driver data.
func (c *ioctlCall) check(f *File, m *ioctlMethod) error {
	for id, s := range m.attrs {
		if !s.isOptional && c.attrs[id] == nil {
			return syscall.EINVAL
		}
	}
	if m.hasContext && !f.hasContext() {
		return syscall.EINVAL
	}
	if a := c.attrs[attrDriverIn]; a != nil {
		c.in = a.in
	}
	return nil
}

// add decodes an attribute (uverbs_set_attr, uverbs_process_attr).
func (c *ioctlCall) add(f *File, m *ioctlMethod, b []byte, at uint64) error {
	id, reserved := ne.Uint16(b), b[6] != 0 || b[7] != 0
	s, ok := m.attrs[id]
	if !ok {
		if ne.Uint16(b[offAttrFlags:])&flagMandatory != 0 {
			return syscall.EPROTONOSUPPORT
		}
		return nil
	}
	if c.attrs[id] != nil {
		return syscall.EINVAL
	}
	a := &attribute{spec: s, at: at, size: int(ne.Uint16(b[2:])), data: ne.Uint64(b[offAttrData:])}
	c.attrs[id] = a
	if s.typ == attrIn {
		if err := c.read(a, b[offAttrData:]); err != nil {
			return err
		}
	}
	switch {
	case reserved:
		return syscall.EINVAL
	case s.typ == attrIn || s.typ == attrOut:
		if a.size < s.least || a.size > s.most && !s.isOpen {
			return syscall.EINVAL
		}
		return nil
	case a.size != 0:
		return syscall.EINVAL
	}
	return c.resolve(f, a)
}

// read sets the value of an attrIn.
func (c *ioctlCall) read(a *attribute, inline []byte) error {
	n := a.size
	if n > a.spec.most && !a.spec.isOpen {
		return syscall.EINVAL
	}
	b := inline[:min(n, sizeInline)]
	if n > sizeInline {
		before := c.isShort
		c.isShort = false
		b = c.load(a.data, n)
		if c.isShort {
			return nil // the value is checked when the request has it
		}
		c.isShort = before
	}
	for _, x := range b[min(n, a.spec.most):] {
		if x != 0 {
			return syscall.EOPNOTSUPP
		}
	}
	a.in = make([]byte, max(a.spec.least, min(n, a.spec.most)))
	copy(a.in, b)
	return nil
}

// resolve finds the object of an attribute.
func (c *ioctlCall) resolve(f *File, a *attribute) error {
	switch a.spec.typ {
	case attrNew, attrNewFile:
		if !f.hasContext() {
			return syscall.EINVAL
		}
	case attrObject:
		f.mu.Lock()
		defer f.mu.Unlock()
		var err error
		a.obj, err = f.locked(a.spec.kind, a.data)
		return err
	case attrChannel:
		switch fd := int32(a.data); {
		case int64(fd) != int64(a.data):
			return syscall.EINVAL
		case fd < 0:
			return syscall.EBADF
		}
	}
	return nil
}

// findChannel checks the descriptor of a channel. Carriers repeat a call for its memory first, and then once for a
// descriptor.
func (c *ioctlCall) findChannel(f *File) error {
	for _, a := range c.attrs {
		if a.spec.typ != attrChannel {
			continue
		}
		_, wait, err := f.channelOf(&c.call, int32(a.data))
		if err != nil || wait {
			return syscall.EBADF // with wait, the reply asks for the descriptor
		}
	}
	return nil
}

// u32 returns a value, or 0 if the call does not have the attribute.
func (c *ioctlCall) u32(id uint16) uint32 {
	a := c.attrs[id]
	if a == nil || len(a.in) < 4 {
		return 0
	}
	return ne.Uint32(a.in)
}

// u64 is u32 for 64 bits.
func (c *ioctlCall) u64(id uint16) uint64 {
	a := c.attrs[id]
	if a == nil || len(a.in) < 8 {
		return 0
	}
	return ne.Uint64(a.in)
}

// constant returns a constant of at most most.
func (c *ioctlCall) constant(id uint16, most uint64) (uint64, error) {
	n := c.u64(id)
	if n > most {
		return 0, syscall.EINVAL
	}
	return n, nil
}

// flags returns flags, which have 32 or 64 bits, or 0 if the call does not have the attribute.
func (c *ioctlCall) flags(id uint16, valid uint32) (uint32, error) {
	a := c.attrs[id]
	if a == nil {
		return 0, nil
	}
	n := uint64(c.u32(id))
	switch a.size {
	case 4:
	case 8:
		n = c.u64(id)
	default:
		return 0, syscall.EINVAL
	}
	if n&^uint64(valid) != 0 {
		return 0, syscall.EINVAL
	}
	return uint32(n), nil
}

// has reports whether the call has an attribute.
func (c *ioctlCall) has(id uint16) bool { return c.attrs[id] != nil }

// handle returns the object of an attribute. Error: ENOENT: the call does not have the attribute.
func (c *ioctlCall) handle(id uint16) (uint32, error) {
	a := c.attrs[id]
	if a == nil {
		return 0, syscall.ENOENT
	}
	return uint32(a.data), nil
}

// store stores as much of b as the program has room for.
func (c *ioctlCall) store(a *attribute, b []byte) {
	if b = b[:min(len(b), a.size)]; len(b) > 0 {
		c.reply.Stores = append(c.reply.Stores, devices.Store{Addr: a.data, Data: b})
	}
	at := int(a.at-c.request.Operand) + offAttrFlags
	flags, _ := c.request.Load(c.request.Operand+uint64(at), 2) // decode has loaded it
	c.reply.Stores = append(c.reply.Stores, devices.Store{Addr: a.at + offAttrFlags,
		Data: ne.AppendUint16(nil, ne.Uint16(flags)|flagValidOutput)})
}

// output stores the value of an attrOut. Error: ENOENT: the call does not have the attribute.
func (c *ioctlCall) output(id uint16, b []byte) error {
	a := c.attrs[id]
	if a == nil {
		return syscall.ENOENT
	}
	c.store(a, b)
	return nil
}

// outputStruct is output for a structure, behind which the program's room is set to zero.
func (c *ioctlCall) outputStruct(id uint16, b []byte) error {
	if a := c.attrs[id]; a != nil && a.size > len(b) {
		b = append(b, make([]byte, a.size-len(b))...)
	}
	return c.output(id, b)
}

// created stores the handle of a new object.
func (c *ioctlCall) created(id uint16, handle uint32) {
	c.reply.Stores = append(c.reply.Stores, devices.Store{Addr: c.attrs[id].at + offAttrData,
		Data: ne.AppendUint64(nil, uint64(handle))})
}
