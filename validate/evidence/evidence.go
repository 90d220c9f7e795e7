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

	"ciddk/ci"
	"ciddk/internal/pcapfile"
	"ciddk/validate"
)

// Write writes packets to a new file at path, in their order. Errors: those of the file.
func Write(path string, packets []validate.WirePacket) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f, packets), f.Close())
}

func write(f *os.File, packets []validate.WirePacket) error {
	link := pcapfile.IP
	if len(packets) > 0 && packets[0].Link == ci.LinkInfiniBand {
		link = pcapfile.InfiniBand
	}
	const hca = 0 // the index of the first interface
	w, err := pcapfile.NewWriter(f, pcapfile.Interface{Name: "hca", Link: link})
	if err != nil {
		return err
	}
	certifier, err := w.AddInterface(pcapfile.Interface{Name: "certifier", Link: link})
	if err != nil {
		return err
	}
	for _, p := range packets {
		at := certifier
		if p.FromHCA {
			at = hca
		}
		if err := w.Write(&pcapfile.Packet{Interface: at, Time: p.Time, Data: p.Data, Comments: p.Comments}); err != nil {
			return err
		}
	}
	return w.Flush()
}
