// Package evidence writes the packets of a case of the certifier's wire profile to pcapng files, which Wireshark and tshark open. Set it in
// a driver that a test runs; the command line does so itself:
//
//	validate.Driver{…, Evidence: evidence.Write}
//
// The two interfaces of a file are the two ends of the link: "hca" is what the adapter under test sent, "certifier" what it was sent. What is
// wrong with a packet stands in its comment (frame.comment), beginning with the id of the requirement that it broke.
package evidence

import (
	"errors"
	"os"
	"runtime"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"

	"ciddk/ci"
	"ciddk/internal/erf"
	"ciddk/validate"
)

// linkRaw is the link type of IP packets (the registry of tcpdump.org).
const linkRaw = 101

// Write writes packets to a new file at path, in their order. Errors: those of the file.
func Write(path string, packets []validate.WirePacket) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f, packets), f.Close())
}

func write(f *os.File, packets []validate.WirePacket) error {
	link := pcapgo.NgInterface{Name: "hca", LinkType: linkRaw, OS: runtime.GOOS, TimestampResolution: 9}
	if len(packets) > 0 && packets[0].Link == ci.LinkInfiniBand {
		link.LinkType = erf.LinkType
	}
	ng, err := pcapgo.NewNgWriterInterface(f, link, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Hardware: runtime.GOARCH,
		OS: runtime.GOOS, Application: "ciddk"}})
	if err != nil {
		return err
	}
	link.Name = "certifier"
	certifier, err := ng.AddInterface(link)
	if err != nil {
		return err
	}
	for _, p := range packets {
		data, at := p.Data, certifier
		if p.FromHCA {
			at = 0
		}
		if p.Link == ci.LinkInfiniBand {
			data = erf.InfiniBand(p.Time, data)
		}
		o := pcapgo.NgPacketOptions{Flags: &pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionOutbound}, Comments: p.Comments}
		c := gopacket.CaptureInfo{Timestamp: p.Time, CaptureLength: len(data), Length: len(data), InterfaceIndex: at}
		if err := ng.WritePacketWithOptions(c, data, o); err != nil {
			return err
		}
	}
	return ng.Flush()
}
