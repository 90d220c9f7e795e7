// Package channel is the conversation between a test on the host and the agent in its guest: frames over one
// virtio-serial port, so that the guest's network carries nothing but what a test sends.
//
// A frame is a header of 9 bytes, big-endian, and a body:
//
//	0  4  length of the body, at most MaxBody
//	4  4  session: the number the host chose for a command; 0 for Setup, Ready and Failed
//	8  1  type
//
// The host sends Setup once; the agent answers Ready or Failed. Then the host starts commands with Exec under session
// numbers that it uses once; the agent answers with any number of Stdout and Stderr and exactly one Exit. Kill ends the
// command's process group.
package channel

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
)

// PortName is the name of the virtio-serial port, /sys/class/virtio-ports/*/name in the guest.
const PortName = "ciddk.agent"

// MaxBody is the longest body in bytes.
const MaxBody = 64 << 10

const headerLen = 9

// Type is the type of a frame.
type Type uint8

// Types, with the sender and the content of the body.
const (
	Setup  Type = 1 + iota // host: JSON Config
	Ready                  // guest: JSON Hello
	Failed                 // guest: text of the error that kept it from being ready
	Exec                   // host: JSON Command
	Kill                   // host: empty
	Stdout                 // guest: bytes
	Stderr                 // guest: bytes
	Exit                   // guest: JSON Status
	typeEnd
)

// Config is the configuration of a guest.
type Config struct {
	Hostname  string
	Addresses []netip.Prefix // of eth0, in the order in which they enter the GID table
	MTU       int            // of eth0, bytes
	Device    string         // name of the rxe device on eth0; "" for none
}

// Hello describes a guest that is ready.
type Hello struct {
	Kernel string       // release, as uname -r
	GIDs   []netip.Addr // GID table of port 1, by index; unused entries are invalid addresses
}

// Command is a program to run: Args[0] is searched in the guest's PATH.
type Command struct {
	Args []string
}

// Status is the result of a command.
type Status struct {
	Code int    // exit code; 128+n after signal n; -1 if it did not start
	Err  string // why it did not start
}

// Frame is one message.
type Frame struct {
	Session uint32
	Type    Type
	Body    []byte
}

// Append appends the encoding of f to b. It fails on a body longer than MaxBody or an unknown type.
func (f Frame) Append(b []byte) ([]byte, error) {
	if len(f.Body) > MaxBody {
		return b, fmt.Errorf("channel: body of %d bytes, the limit is %d", len(f.Body), MaxBody)
	}
	if f.Type == 0 || f.Type >= typeEnd {
		return b, fmt.Errorf("channel: unknown frame type %d", f.Type)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Body)))
	b = binary.BigEndian.AppendUint32(b, f.Session)
	b = append(b, byte(f.Type))
	return append(b, f.Body...), nil
}

// Write sends a frame with one Write. Concurrent callers serialise themselves.
func Write(w io.Writer, f Frame) error {
	b, err := f.Append(make([]byte, 0, headerLen+len(f.Body)))
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// WriteJSON sends a frame whose body is v.
func WriteJSON(w io.Writer, session uint32, t Type, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return Write(w, Frame{Session: session, Type: t, Body: b})
}

// Read reads the next frame. It returns io.EOF at an end between two frames, and io.ErrUnexpectedEOF inside a frame.
func Read(r io.Reader) (Frame, error) {
	var h [headerLen]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return Frame{}, err
	}
	n := binary.BigEndian.Uint32(h[:])
	f := Frame{Session: binary.BigEndian.Uint32(h[4:]), Type: Type(h[8])}
	if n > MaxBody || f.Type == 0 || f.Type >= typeEnd {
		return Frame{}, fmt.Errorf("channel: not a frame: length %d, type %d", n, f.Type)
	}
	f.Body = make([]byte, n)
	if _, err := io.ReadFull(r, f.Body); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return f, nil
}
