package join

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"ciddk/ci"
	"ciddk/mad"
)

// version is that of the protocol.
const version = 1

// Types of messages.
const (
	typeHello     byte = iota + 1 // client: hello
	typeWelcome                   // server: welcome
	typePacket                    // both: a packet, LRH to VCRC
	typeChange                    // server: change
	typeMAD                       // client: a number of 4 bytes and a datagram for the port's agent
	typeAnswer                    // server: the number and the response; without one, zeros
	typeModify                    // client: a number of 4 bytes and modify; the answer has zeros
	typeViolation                 // client: 1 byte, 1 for a Q_Key, and the details of trap 257 or 258
	typeLink                      // client: 1 byte, 1 to plug the cable in, 0 to pull it out
)

const (
	headerLen = 5
	// maxPacket is the longest packet: 4096 bytes of payload and all headers.
	maxPacket = 4096 + 256
	// maxControl is the longest message with attributes.
	maxControl = 256 << 10
	numberLen  = 4
	madLen     = numberLen + mad.Size
)

// hello is the first message of a client.
type hello struct {
	Version int    `json:"version"`
	Node    string `json:"node"`
	Port    int    `json:"port"`
}

// welcome is the response to hello.
type welcome struct {
	Error string       `json:"error,omitempty"`
	Node  mad.NodeInfo `json:"node"`
	Attr  ci.PortAttr  `json:"attr"`
}

// change reports an event with the attributes after it. Without an event, only the attributes have changed.
type change struct {
	Event ci.EventType `json:"event"`
	Has   bool         `json:"has"`
	Attr  ci.PortAttr  `json:"attr"`
}

// modify is a CA.Modify.
type modify struct {
	Set  ci.PortField  `json:"set"`
	Attr ci.PortModify `json:"attr"`
}

// errMessage is the error of all messages that are not valid.
var errMessage = errors.New("join: invalid message")

// readMessage reads a message into b, which it may replace by a longer slice. maxLen bounds the contents.
func readMessage(r io.Reader, b []byte, maxLen int) (typ byte, contents, buf []byte, err error) {
	var h [headerLen]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, b, err
	}
	n := int64(binary.BigEndian.Uint32(h[:])) - 1
	if n < 0 || n > int64(maxLen) {
		return 0, nil, b, fmt.Errorf("%w: %d bytes, want up to %d", errMessage, n+1, maxLen+1)
	}
	if int64(cap(b)) < n {
		b = make([]byte, n)
	}
	b = b[:n]
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, b, err
	}
	return h[4], b, b, nil
}

// appendHeader appends the header of a message of n bytes of contents.
func appendHeader(b []byte, typ byte, n int) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(n+1)), typ)
}

// appendMessage appends a message.
func appendMessage(b []byte, typ byte, contents []byte) []byte {
	return append(appendHeader(b, typ, len(contents)), contents...)
}

// encode returns a value as JSON. All values here have a form.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a type of this package is wrong
	}
	return b
}

// decode parses JSON.
func decode(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", errMessage, err)
	}
	return nil
}
