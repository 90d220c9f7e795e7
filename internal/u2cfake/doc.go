// Package u2cfake is a U2C-12 adapter in software: a u2c.Pipe with an I2C bus behind it. Programs use it to work
// without hardware, and tests use it to inject faults.
//
//	fake := u2cfake.New(u2cfake.Config{Serial: 1, Targets: map[uint8]u2cfake.Target{
//		0x48: u2cfake.CRSpace(u2cfake.Registers(model, 0)),
//	}})
//	a, err := u2c.Open(ctx, fake, u2c.Config{})
//
// The adapter answers every command with one message, unknown ones, too. It accepts any bytes.
//
// All methods may be called concurrently.
package u2cfake
