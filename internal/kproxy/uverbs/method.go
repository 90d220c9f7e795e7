package uverbs

import (
	"encoding/binary"
	"syscall"

	"ciddk/internal/kproxy/devices"
)

var ne = binary.NativeEndian

// A method declares a command: the sizes of its request and reply, and the function that executes it.
type method struct {
	name    string
	request int // bytes of the structure
	least   int // bytes of it that a program must send; those that it does not send are zero
	reply   int
	room    int  // bytes of the reply for which a program must have room
	address bool // the request begins with the address of the reply
	context bool // the file needs a context
	run     func(f *File, c *call) error
}

// call is a command in execution.
type call struct {
	request  *devices.Request
	core     []byte // the request without its header, zero-extended
	in       []byte // driver data
	response uint64 // address
	room     int    // bytes for the core of the reply
	dataRoom int    // and for driver data behind it

	resp  []byte // core of the reply
	out   []byte // driver data of the reply
	reply devices.Reply
}

// define declares a command with the structures Q and R.
func define[Q, R any](name string, run func(f *File, c *call, q *Q, r *R) error) method {
	return method{name: name, request: size[Q](), least: size[Q](), reply: size[R](), room: size[R](),
		address: size[R]() > 0, context: true,
		run: func(f *File, c *call) error {
			q, r := new(Q), new(R)
			if _, err := binary.Decode(c.core, ne, q); err != nil {
				return syscall.EINVAL
			}
			if err := run(f, c, q, r); err != nil {
				return err
			}
			c.resp, _ = binary.Append(nil, ne, r) // the structures have fixed sizes
			return nil
		}}
}

// size returns the bytes of a structure.
func size[T any]() int { return binary.Size(new(T)) }

// extended declares an extended command. The program must send least bytes of the request and have room for that many
// of the reply.
func extended(m method, least, room int) method {
	m.least, m.room, m.address = least, room, false
	return m
}

// find returns the method of a command.
func find(command uint32) (*method, error) {
	if command&^(flagExtended|commandMask) != 0 {
		return nil, syscall.EINVAL
	}
	table, last := methods[:], uint32(maxCmd)
	number := command & commandMask
	if command&flagExtended != 0 {
		table, last = extendedMethods[:], maxExtended
	}
	switch {
	case number > last && command&flagExtended == 0:
		return nil, syscall.EINVAL
	case number > last || table[number].run == nil:
		return nil, syscall.EOPNOTSUPP
	}
	return &table[number], nil
}

// parse decodes the header of a write, with the checks and errors of Linux (verify_hdr).
func parse(r *devices.Request) (*method, *call, error) {
	b := r.Data
	if len(b) < headerSize {
		return nil, nil, syscall.EINVAL
	}
	command, in, out := ne.Uint32(b), int(ne.Uint16(b[4:])), int(ne.Uint16(b[6:]))
	m, err := find(command)
	if err != nil {
		return nil, nil, err
	}
	if command&flagExtended != 0 {
		return parseExtended(m, r, in, out)
	}
	if in*4 != len(b) {
		return nil, nil, syscall.EINVAL
	}
	body := b[headerSize:]
	if len(body) < m.least {
		if command != cmdDestroyCQ || len(b) != oldDestroyCQ {
			return nil, nil, syscall.ENOSPC
		}
		body = append(append(make([]byte, 0, m.request), body...), make([]byte, m.request-len(body))...)
	}
	if out*4 < m.room {
		return nil, nil, syscall.ENOSPC
	}
	c := &call{request: r, core: body[:m.request], in: body[m.request:], room: m.reply, dataRoom: out*4 - m.reply}
	if m.address {
		c.response = ne.Uint64(c.core)
	} else {
		c.dataRoom = 0
	}
	return m, c, nil
}

func parseExtended(m *method, r *devices.Request, in, out int) (*method, *call, error) {
	b := r.Data
	if len(b) < headerSize+extendedSize {
		return nil, nil, syscall.EINVAL
	}
	response := ne.Uint64(b[8:])
	dataIn, dataOut := int(ne.Uint16(b[16:])), int(ne.Uint16(b[18:]))
	body := b[headerSize+extendedSize:]
	switch {
	case (in+dataIn)*8 != len(body):
		return nil, nil, syscall.EINVAL
	case in*8 < m.least:
		return nil, nil, syscall.ENOSPC
	case ne.Uint32(b[20:]) != 0:
		return nil, nil, syscall.EINVAL
	case response != 0 && out == 0 && dataOut == 0, response == 0 && (out != 0 || dataOut != 0):
		return nil, nil, syscall.EINVAL
	case response != 0 && out*8 < m.room:
		return nil, nil, syscall.ENOSPC
	}
	core, data := body[:in*8], body[in*8:]
	for _, x := range core[min(m.request, len(core)):] { // fields of a later version of the ABI
		if x != 0 {
			return nil, nil, syscall.EOPNOTSUPP
		}
	}
	full := make([]byte, m.request)
	copy(full, core)
	return m, &call{request: r, core: full, in: data, response: response, room: out * 8, dataRoom: dataOut * 8}, nil
}

// finish completes the reply of a command that succeeded.
func (c *call) finish() *devices.Reply {
	r := &c.reply
	r.Result = int64(len(c.request.Data))
	if c.response == 0 {
		return r
	}
	b := make([]byte, c.room) // what the reply does not fill is zero
	copy(b, c.resp)
	b = append(b, c.out[:min(len(c.out), c.dataRoom)]...)
	if len(b) > 0 {
		r.Stores = append(r.Stores, devices.Store{Addr: c.response, Data: b})
	}
	return r
}
