// Package capture writes what passes the ports of the reference HCA to pcapng files, which Wireshark and tshark open.
//
//	tap := new(reference.Tap)
//	hca, err := reference.New(reference.Config{Ports: []reference.PortConfig{reference.Capture(port, tap)}})
//	…
//	stop, err := capture.ToFile("run.pcapng", tap)
//	…
//	err = stop()
//
// Each port is an interface of the file, named by the node GUID of its HCA and its number. Each packet carries its direction
// (frame.packet_flags_direction), its time in nanoseconds and, if it was dropped, the reason as a comment (frame.comment). Two ends of a
// link in one file show each packet twice, as sent and as received: one that shows once was lost between them. Filter one end with
// frame.interface_name.
//
// Ethernet ports are written as raw IP (LINKTYPE_RAW): the link has no Ethernet header of its own to show. InfiniBand ports are written as
// ERF records of type 21 (LINKTYPE_ERF), since Wireshark does not read LINKTYPE_INFINIBAND.
//
// Wireshark guesses at payloads, and may call a message of ours a malformed one of RPC over RDMA, NVMe, iSER and others. Switch them off
// (Analyze, Enabled Protocols; tshark --disable-protocol rpcordma). It knows RoCEv2 by UDP port 4791; for another port, decode it as
// InfiniBand (tshark -d udp.port==N,infiniband).
package capture

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/erf"
)

// linkRaw is the link type of IP packets (the registry of tcpdump.org).
const linkRaw = 101

// Writer writes frames to a pcapng stream. Not for concurrent use.
type Writer struct {
	ng    *pcapgo.NgWriter
	ports map[port]int // interface ids
}

type port struct {
	hca ci.GUID
	num uint8
}

// NewWriter writes the head of a section to w.
func NewWriter(w io.Writer) (*Writer, error) {
	// The library wants a first interface at once. Its name says what it is for; no packet belongs to it.
	none := pcapgo.NgInterface{Name: "none", LinkType: linkRaw, OS: runtime.GOOS, TimestampResolution: 9}
	ng, err := pcapgo.NewNgWriterInterface(w, none, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Hardware: runtime.GOARCH,
		OS: runtime.GOOS, Application: "ciddk"}})
	if err != nil {
		return nil, err
	}
	return &Writer{ng: ng, ports: make(map[port]int)}, ng.Flush()
}

// Write writes frames, all of them to the stream below when it returns: a process that ends without warning leaves a good file behind.
func (w *Writer) Write(frames []reference.Frame) error {
	for i := range frames {
		if err := w.write(&frames[i]); err != nil {
			return err
		}
	}
	return w.ng.Flush()
}

func (w *Writer) write(f *reference.Frame) error {
	at := port{f.HCA, f.Port}
	id, ok := w.ports[at]
	if !ok {
		n := pcapgo.NgInterface{Name: fmt.Sprintf("%016x/%d", uint64(f.HCA), f.Port), LinkType: linkRaw, OS: runtime.GOOS, TimestampResolution: 9}
		if f.Link == ci.LinkInfiniBand {
			n.LinkType = erf.LinkType
		}
		var err error
		if id, err = w.ng.AddInterface(n); err != nil {
			return err
		}
		w.ports[at] = id
	}
	data := f.Data
	if f.Link == ci.LinkInfiniBand {
		data = erf.InfiniBand(f.Time, data)
	}
	flags := pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionOutbound}
	if f.Dir == reference.In {
		flags.Direction = pcapgo.NgEpbFlagDirectionInbound
	}
	o := pcapgo.NgPacketOptions{Flags: &flags}
	if f.Drop != "" {
		o.Comments = []string{"dropped: " + f.Drop}
	}
	return w.ng.WritePacketWithOptions(gopacket.CaptureInfo{Timestamp: f.Time, CaptureLength: len(data), Length: len(data), InterfaceIndex: id}, data, o)
}

// ToFile writes what the tap shows to a new file at path until stop is called. stop returns the first error of writing, and the same
// when it is called again. Errors of ToFile: those of creating the file; the tap is on already.
func ToFile(path string, t *reference.Tap) (stop func() error, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	w, err := NewWriter(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	var failed error // guarded by the tap, which makes one call at a time; read after Stop
	if err := t.Start(func(frames []reference.Frame) {
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
