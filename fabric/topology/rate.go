package topology

import (
	"fmt"
	"strings"
)

// A Width is the number of lanes of a link.
type Width uint8

// Widths of links.
const (
	Width1x  Width = 1
	Width2x  Width = 2
	Width4x  Width = 4
	Width8x  Width = 8
	Width12x Width = 12
)

// widthCodes are the bits of PortInfo for widths, widest first.
var widthCodes = []struct {
	w    Width
	code uint8
}{{Width12x, 8}, {Width8x, 4}, {Width4x, 2}, {Width2x, 16}, {Width1x, 1}}

// Code returns the bit of LinkWidthActive, or 0 for an unknown width.
func (w Width) Code() uint8 {
	for _, c := range widthCodes {
		if c.w == w {
			return c.code
		}
	}
	return 0
}

// Supported returns the bits of LinkWidthSupported of a port with this width: 1x and the width itself, and 4x for wider
// ports.
func (w Width) Supported() uint8 {
	m := w.Code() | Width1x.Code()
	if w > Width4x {
		m |= Width4x.Code()
	}
	return m
}

// WidthOf returns the widest width in a mask of bits of PortInfo, or 0.
func WidthOf(mask uint8) Width {
	for _, c := range widthCodes {
		if mask&c.code != 0 {
			return c.w
		}
	}
	return 0
}

// A Speed is the signalling rate of a lane.
type Speed uint8

// Speeds of lanes, slowest first.
const (
	SDR Speed = 1 + iota
	DDR
	QDR
	FDR
	EDR
	HDR
	NDR
)

var speeds = [...]struct {
	name string
	mbps int   // signalling rate of a lane, Mb/s, as names of rates round it
	code uint8 // bit of LinkSpeedActive
	ext  uint8 // bit of LinkSpeedExtActive
}{SDR: {"SDR", 2500, 1, 0}, DDR: {"DDR", 5000, 2, 0}, QDR: {"QDR", 10000, 4, 0}, FDR: {"FDR", 14062, 4, 1},
	EDR: {"EDR", 25781, 4, 2}, HDR: {"HDR", 53125, 4, 4}, NDR: {"NDR", 106250, 4, 8}}

func (s Speed) String() string {
	if s < SDR || s > NDR {
		return fmt.Sprintf("Speed(%d)", uint8(s))
	}
	return speeds[s].name
}

// Codes returns the values of LinkSpeedActive and LinkSpeedExtActive, or zeros for an unknown speed.
func (s Speed) Codes() (base, extended uint8) {
	if s < SDR || s > NDR {
		return 0, 0
	}
	return speeds[s].code, speeds[s].ext
}

// Supported returns the bits of LinkSpeedSupported and LinkSpeedExtSupported of a port that has this speed and all
// slower ones.
func (s Speed) Supported() (base, extended uint8) {
	for k := SDR; k <= s && k <= NDR; k++ {
		base |= speeds[k].code
		extended |= speeds[k].ext
	}
	return base, extended
}

// SpeedOf returns the fastest speed in masks of bits of PortInfo, or 0.
func SpeedOf(base, extended uint8) Speed {
	for s := NDR; s >= SDR; s-- {
		if c := speeds[s]; c.ext != 0 && extended&c.ext != 0 || c.ext == 0 && base&c.code != 0 {
			return s
		}
	}
	return 0
}

// Mbps returns the signalling rate of a link in Mb/s, or 0 if width or speed is unknown.
func Mbps(w Width, s Speed) int {
	if s < SDR || s > NDR {
		return 0
	}
	return int(w) * speeds[s].mbps
}

// dataShare is the part of the signalling rate that carries data: 8b/10b coding up to QDR, 64b/66b from FDR on.
func dataShare(s Speed) (num, den int64) {
	if s <= QDR {
		return 8, 10
	}
	return 64, 66
}

// PicosPerByte returns the time that a link needs for a byte in picoseconds, or 0 if width or speed is unknown.
func PicosPerByte(w Width, s Speed) int64 {
	m := int64(Mbps(w, s))
	if m == 0 {
		return 0
	}
	num, den := dataShare(s)
	return 8 * 1_000_000 * den / (m * num)
}

// ParseRate parses a text such as 4xQDR. It returns zeros if s is none.
func ParseRate(s string) (Width, Speed) {
	lanes, name, ok := strings.Cut(s, "x")
	if !ok {
		return 0, 0
	}
	for _, c := range widthCodes {
		if lanes != fmt.Sprint(uint8(c.w)) {
			continue
		}
		for k := SDR; k <= NDR; k++ {
			if speeds[k].name == name || name == "FDR10" && k == QDR {
				return c.w, k
			}
		}
	}
	return 0, 0
}

// FormatRate returns a text such as 4xQDR.
func FormatRate(w Width, s Speed) string { return fmt.Sprintf("%dx%v", uint8(w), s) }
