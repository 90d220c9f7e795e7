// Command ddk-oob reaches the registers of a Mellanox card out of band: over I2C, with the USB adapter MTUSB-1 (Diolan
// U2C-12). The card needs neither PCI Express nor firmware.
//
//	ddk-oob list                       # the USB adapters, with their serial numbers
//	ddk-oob id                         # the card's generation
//	ddk-oob read 0xf0014 4             # four registers
//	ddk-oob dump 0x1f020 0x40          # 64 bytes
//	ddk-oob scan                       # I2C addresses that answer
//	ddk-oob recover                    # release an I2C bus that a target blocks
//	ddk-oob write --yes-i-know ADDRESS VALUE
//
// With --fake the commands use an adapter in software, behind which a model of a ConnectX-3 answers.
//
// # Build
//
// USB needs libusb: CGO_ENABLED=1 go build -tags usb ./cmd/ddk-oob. Without the tag only --fake works.
//
// # Which adapter
//
// With several adapters on the USB, --serial or --usb is required.
//
// # Side effects
//
// A read of the ownership register or of the semaphore takes them. dump leaves them out, unless --all is set. A wrong
// write can damage a card for good.
//
// Exit status: 0 success, 1 an error, 2 usage.
package main

import (
	"context"
	"io"

	"ciddk/internal/command"
)

// commands is the grammar of the command line.
type commands struct {
	options

	List    listCmd    `cmd:"" help:"List the USB adapters."`
	ID      idCmd      `cmd:"" name:"id" help:"Print the card's generation."`
	Read    readCmd    `cmd:"" help:"Print registers."`
	Dump    dumpCmd    `cmd:"" help:"Print a range of registers."`
	Write   writeCmd   `cmd:"" help:"Write a register."`
	Scan    scanCmd    `cmd:"" help:"Print the I2C addresses that answer."`
	Recover recoverCmd `cmd:"" help:"Release an I2C bus that a target blocks."`
}

// options are those of all commands.
type options struct {
	Fake    bool   `help:"Use an adapter in software, with a model of a ConnectX-3 behind it."`
	Serial  string `placeholder:"HEX" help:"Serial number of the USB adapter."`
	USB     string `name:"usb" placeholder:"BUS:ADDRESS" help:"Place of the USB adapter."`
	Address uint8  `default:"0" help:"I2C address of the card; 0 tries 0x48 and 0x47."`
	Speed   int    `default:"100000" help:"Speed of the I2C bus in Hz: 400000, or 2100 to 100000."`
	Batch   bool   `help:"Read all bytes of a transaction in one USB transfer."`
}

// program is where commands write, and the options.
type program struct {
	ctx context.Context
	out io.Writer
	err io.Writer
	options
}

func main() { command.Main(run) }

// run executes a command line and returns the exit status.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var c commands
	p := command.Program{Name: "ddk-oob", Grammar: &c, Out: out, Errs: errs}
	p.Description = "Registers of a Mellanox card over USB and I2C."
	p.Bindings = func() []any { return []any{&program{ctx: ctx, out: out, err: errs, options: c.options}} }
	return p.Run(args)
}
