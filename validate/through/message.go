package through

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"ciddk/ci"
	"ciddk/kproxy/native"
	"ciddk/validate"
)

// operation is what a worker requests of the daemon process.
type operation string

const (
	opOpen    operation = "open" // with a descriptor: the daemon's end of the connection of package kproxy/native
	opClose   operation = "close"
	opPing    operation = "ping"
	opLive    operation = "live"
	opImpair  operation = "impair"
	opSetLink operation = "set link"
	opProbe   operation = "probe"
	opCapture operation = "capture"
	opStop    operation = "stop capture"
	opEnd     operation = "wire"
	opSend    operation = "send"
	opRecv    operation = "receive"
	opCancel  operation = "cancel" // of the request Handle
	opEndWire operation = "close wire"

	// Services of the HCA GUID.
	opServe   operation = "start services"
	opManage  operation = "start connection manager"
	opRelease operation = "close connection manager"
	opDepart  operation = "remove HCA from services"
	opRetire  operation = "end services"
)

// request is a message to the daemon process.
type request struct {
	ID         uint64
	Op         operation
	Options    validate.Options
	Impairment validate.Impairment
	Up         bool
	Path       string
	Handle     uint64 // of a capture, of an end of the link, or of a request to cancel
	Packet     []byte
	GUID       ci.GUID
	Copies     bool // the client copies its memory
}

// reply is a message of the daemon process.
type reply struct {
	ID         uint64
	Failure    *failure
	Target     *description
	Live       map[string]int
	Sent, Lost int
	Handle     uint64
	Wire       *validate.WireInfo
	Packet     []byte
}

// description is what a Target states besides its functions.
type description struct {
	GUIDs       []ci.GUID
	NoMulticast string
	Lossless    bool
	VendorCall  *validate.VendorCommand
	Version     string
	Withheld    ci.Caps
	Services    bool
	// Has names the functions that are not nil.
	Has map[operation]bool
}

// failure is an error that crosses the process boundary.
type failure struct {
	Text        string
	Status      ci.Status
	Unsupported bool // errors.ErrUnsupported
}

func newFailure(err error) *failure {
	if err == nil {
		return nil
	}
	return &failure{err.Error(), ci.StatusOf(err), errors.Is(err, errors.ErrUnsupported)}
}

// Error returns the text of the error.
func (f *failure) Error() string { return f.Text }

// Unwrap returns the status, and errors.ErrUnsupported if the error wrapped it.
func (f *failure) Unwrap() []error {
	var list []error
	if f.Status != ci.Success {
		list = append(list, f.Status)
	}
	if f.Unsupported {
		list = append(list, errors.ErrUnsupported)
	}
	return list
}

// maxMessage is the size of the buffer for messages. A packet of the link, which has at most 64 KiB, fits.
const maxMessage = 160 << 10

// send sends a message.
func send(c *native.Conn, m any, files ...*os.File) error {
	b, err := json.Marshal(m)
	if err == nil && len(b) > maxMessage {
		err = fmt.Errorf("through: a message of %d bytes, limit %d", len(b), maxMessage)
	}
	if err != nil {
		return err
	}
	return c.Send(b, files)
}

// receive receives a message into buf, which has maxMessage bytes, and decodes it into m.
func receive(c *native.Conn, buf []byte, m any) ([]*os.File, error) {
	n, files, err := c.Recv(buf)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(buf[:n], m); err != nil {
		closeAll(files)
		return nil, err
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
