// Package u2c speaks the protocol of the Diolan DIMAX U2C-12, a USB adapter for I2C buses that Mellanox sells as
// MTUSB-1.
//
// An Adapter is made over a Pipe: two bulk endpoints, from package bus/usb or from a fake in a test.
//
//	a, err := u2c.Open(ctx, pipe, u2c.Config{})
//	…
//	err = a.WriteRead(ctx, 0x48, []byte{0x00, 0x0f, 0x00, 0x14}, reply)
//
// # Protocol
//
// One OUT transfer carries one or several commands. The adapter answers each command with one IN message: its payload,
// and the status as the last byte. After a failed command the remaining answers are read, too. After a message is lost
// or has the wrong length, the adapter's messages no longer match the commands; the next call drains them.
//
// A transaction on the I2C bus always ends with STOP, also after an error and after its context has ended.
//
// # Errors
//
// ErrNoTarget, ErrNACK, ErrTimeout, ErrReply, ErrStatus and ErrUnplugged distinguish what went wrong.
//
// # Concurrency
//
// All methods of an Adapter may be called concurrently. Transactions are executed one at a time.
//
// # Sources
//
// Linux drivers/i2c/busses/i2c-diolan-u2c.c.
package u2c
