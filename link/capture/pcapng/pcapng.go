package pcapng

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"ciddk/ci"
	"ciddk/internal/pcapfile"
	"ciddk/link/capture"
	"ciddk/rvt"
)

// A Writer writes frames to a pcapng stream. It is not safe for concurrent use.
type Writer struct {
	file  *pcapfile.Writer
	ports map[port]int // interface indexes
}

type port struct {
	hca ci.GUID
	num uint8
}

// NewWriter writes the head of a section to w.
func NewWriter(w io.Writer) (*Writer, error) {
	// The format has a first interface at once. No packet belongs to it.
	f, err := pcapfile.NewWriter(w, pcapfile.Interface{Name: "none"})
	if err != nil {
		return nil, err
	}
	return &Writer{file: f, ports: make(map[port]int)}, nil
}

// Write writes frames, all of them to the stream below when it returns: a process that ends without warning leaves a
// good file behind.
func (w *Writer) Write(frames []capture.Frame) error {
	for i := range frames {
		if err := w.write(&frames[i]); err != nil {
			return err
		}
	}
	return w.file.Flush()
}

func (w *Writer) write(f *capture.Frame) error {
	at := port{f.HCA, f.Port}
	id, ok := w.ports[at]
	if !ok {
		i := pcapfile.Interface{Name: fmt.Sprintf("%016x/%d", uint64(f.HCA), f.Port)}
		if f.Link == ci.LinkInfiniBand {
			i.Link = pcapfile.InfiniBand
		}
		var err error
		if id, err = w.file.AddInterface(i); err != nil {
			return err
		}
		w.ports[at] = id
	}
	p := pcapfile.Packet{Interface: id, Time: f.Time, Received: f.Direction == rvt.Received, Data: f.Data}
	if f.Drop != "" {
		p.Comments = []string{"dropped: " + f.Drop}
	}
	return w.file.Write(&p)
}

// ToFile writes what the tap shows to a new file at path until stop is called. stop returns the first error of writing,
// and the same when it is called again. Errors of ToFile: those of creating the file; the tap is on already.
func ToFile(path string, t *capture.Tap) (stop func() error, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	w, err := NewWriter(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	var failed error // guarded by the tap, which makes one call at a time; read after Stop
	if err := t.Start(func(frames []capture.Frame) {
		if failed == nil {
			failed = w.Write(frames)
		}
	}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return sync.OnceValue(func() error {
		t.Stop()
		return errors.Join(failed, f.Close())
	}), nil
}
