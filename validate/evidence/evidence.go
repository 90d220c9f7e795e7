// Package evidence writes the packets of a case of the certifier's wire profile to pcapng files, which Wireshark and
// tshark can open. The command line uses it for every driver. A test sets it in the driver that it runs:
//
//	validate.Driver{…, Evidence: evidence.Write}
//
// A file has two interfaces, one for each end of the link: "hca" has the packets that the adapter under test sent,
// "certifier" those that the certifier sent. If a packet broke a requirement, its comment (frame.comment) begins with
// the requirement's id.
package evidence

import (
	"errors"
	"os"

	"ciddk/ci"
	"ciddk/internal/pcapfile"
	"ciddk/validate"
)

// Write writes packets to a new file at path, in order. It returns the errors of the file.
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
		if err := w.Write(
			&pcapfile.Packet{Interface: at, Time: p.Time, Data: p.Data, Comments: p.Comments},
		); err != nil {
			return err
		}
	}
	return w.Flush()
}
