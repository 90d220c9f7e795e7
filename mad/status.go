package mad

import (
	"fmt"
	"strings"
)

// Values of Header.Status that are common to all classes (13.4.7, table 113). The upper byte is specific to the class.
const (
	StatusOK uint16 = 0
	// may be combined with others: the datagram was discarded, and should be sent again
	StatusBusy               uint16 = 0x0001
	StatusRedirect           uint16 = 0x0002 // may be combined with others: send to the address in ClassPortInfo
	StatusBadVersion         uint16 = 0x0004
	StatusBadMethod          uint16 = 0x0008
	StatusBadMethodAttribute uint16 = 0x000c
	StatusBadField           uint16 = 0x001c // invalid value in the attribute or the modifier
	StatusDirection          uint16 = 0x8000 // D bit of directed route SMPs: set on the return path
)

// Values of Header.Status of subnet administration, bits 8-15 (15.2.4, table 185).
const (
	StatusSANoResources           uint16 = 0x0100
	StatusSARequestInvalid        uint16 = 0x0200
	StatusSANoRecords             uint16 = 0x0300
	StatusSATooManyRecords        uint16 = 0x0400
	StatusSAInvalidGID            uint16 = 0x0500
	StatusSAInsufficientComponent uint16 = 0x0600
	StatusSADenied                uint16 = 0x0700
)

// statusCode is the mask of bits 2-4, which hold a number.
const statusCode uint16 = 0x001c

// Status is a Header.Status with methods that format it.
type Status uint16

// StatusText returns a description of the header's status.
func (h *Header) StatusText() string { return Status(h.Status).Text(h.Class) }

var statusCodes = map[uint16]string{
	StatusBadVersion: "base or class version not supported", StatusBadMethod: "method not supported",
	StatusBadMethodAttribute: "method and attribute not supported together",
	StatusBadField:           "invalid value in attribute or modifier",
}

var saStatus = map[uint16]string{
	StatusSANoResources: "SA: no resources", StatusSARequestInvalid: "SA: invalid request",
	StatusSANoRecords:      "SA: no records",
	StatusSATooManyRecords: "SA: too many records", StatusSAInvalidGID: "SA: invalid GID",
	StatusSAInsufficientComponent: "SA: insufficient components", StatusSADenied: "SA: denied",
}

// String returns a description of the status, with the class-specific part as a number.
func (s Status) String() string { return s.Text(0) }

// Text is like String, but describes the class-specific part for subnet administration and directed route SMPs.
func (s Status) Text(c Class) string {
	v := uint16(s)
	var words []string
	if c == ClassSubnetDirected && v&StatusDirection != 0 {
		words = append(words, "returning")
		v &^= StatusDirection
	}
	if v&StatusBusy != 0 {
		words = append(words, "busy")
	}
	if v&StatusRedirect != 0 {
		words = append(words, "redirect")
	}
	if code := v & statusCode; code != 0 {
		if t, ok := statusCodes[code]; ok {
			words = append(words, t)
		} else {
			words = append(words, fmt.Sprintf("reserved code %d", code>>2))
		}
	}
	if r := v & 0xe0; r != 0 {
		words = append(words, fmt.Sprintf("reserved bits %#02x", r))
	}
	if own := v & 0xff00; own != 0 {
		if t, ok := saStatus[own]; ok && c == ClassSubnetAdmin {
			words = append(words, t)
		} else {
			words = append(words, fmt.Sprintf("class status %#02x", own>>8))
		}
	}
	if len(words) == 0 || len(words) == 1 && words[0] == "returning" {
		words = append(words, "OK")
	}
	return strings.Join(words, ", ")
}
