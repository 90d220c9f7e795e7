// Package usb finds the USB adapters that reach the registers of a Mellanox card over I2C: the MTUSB-1, which is a
// Diolan U2C-12. It opens them as pipes for package u2c.
//
//	u2c        the adapter's protocol
//	crspace    registers of a card over I2C
//
// # Build tag
//
// USB needs libusb, and cgo. The default build has neither: its List and Open return ErrNotBuilt. To build with USB,
// install libusb (Debian: libusb-1.0-0-dev and pkg-config) and use
//
//	CGO_ENABLED=1 go build -tags usb ./cmd/ddk-oob
//
// # Kernel driver
//
// Linux's i2c-diolan-u2c claims the adapter. Open detaches it, and Close attaches it again.
//
// All functions may be called concurrently.
package usb
