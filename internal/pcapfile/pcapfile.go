// Package pcapfile writes packets to pcapng streams, which Wireshark and tshark open. All capture files of this module
// are written by it.
package pcapfile

import (
	"io"
	"runtime"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// A LinkType determines what the packets of an interface begin with.
type LinkType uint8

// Link types.
const (
	IP         LinkType = iota // an IP header (LINKTYPE_RAW)
	InfiniBand                 // an LRH, up to the VCRC; written as an ERF record: see ERFLinkType
	Ethernet                   // an Ethernet header, without the FCS (LINKTYPE_ETHERNET)
)

// number returns the link type's number in the registry of tcpdump.org.
func (l LinkType) number() layers.LinkType {
	const raw, ethernet = 101, 1
	switch l {
	case InfiniBand:
		return ERFLinkType
	case Ethernet:
		return ethernet
	default:
		return raw
	}
}

// An Interface is one of the ports whose packets a stream contains.
type Interface struct {
	Name string
	Link LinkType
}

// A Packet is one packet of a stream.
type Packet struct {
	Interface int // index: 0 is the first
	Time      time.Time
	Received  bool // false: sent
	Data      []byte
	Comments  []string
}

// A Writer writes one stream. It is not safe for concurrent use.
type Writer struct {
	ng    *pcapgo.NgWriter
	links []LinkType // by interface
}

// NewWriter writes the header of a stream with its first interface.
func NewWriter(w io.Writer, first Interface) (*Writer, error) {
	info := pcapgo.NgSectionInfo{Hardware: runtime.GOARCH, OS: runtime.GOOS, Application: "ciddk"}
	ng, err := pcapgo.NewNgWriterInterface(w, first.ng(), pcapgo.NgWriterOptions{SectionInfo: info})
	if err != nil {
		return nil, err
	}
	return &Writer{ng: ng, links: []LinkType{first.Link}}, ng.Flush()
}

// ng returns the interface in the library's form.
func (i Interface) ng() pcapgo.NgInterface {
	return pcapgo.NgInterface{Name: i.Name, LinkType: i.Link.number(), OS: runtime.GOOS, TimestampResolution: 9}
}

// AddInterface adds an interface and returns its index.
func (w *Writer) AddInterface(i Interface) (int, error) {
	id, err := w.ng.AddInterface(i.ng())
	if err != nil {
		return 0, err
	}
	w.links = append(w.links, i.Link)
	return id, nil
}

// Write writes a packet. Flush passes it to the stream below.
func (w *Writer) Write(p *Packet) error {
	data := p.Data
	if w.links[p.Interface] == InfiniBand {
		data = erfRecord(p.Time, data)
	}
	flags := pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionOutbound}
	if p.Received {
		flags.Direction = pcapgo.NgEpbFlagDirectionInbound
	}
	info := gopacket.CaptureInfo{
		Timestamp:      p.Time,
		CaptureLength:  len(data),
		Length:         len(data),
		InterfaceIndex: p.Interface,
	}
	return w.ng.WritePacketWithOptions(info, data, pcapgo.NgPacketOptions{Flags: &flags, Comments: p.Comments})
}

// Flush writes the buffered packets to the stream below.
func (w *Writer) Flush() error { return w.ng.Flush() }
