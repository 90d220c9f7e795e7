package main

import (
	"errors"
	"fmt"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
)

// faultCmd is the grammar of the faults that a running card can have.
type faultCmd struct {
	Link           linkCmd         `cmd:"" help:"Pull the cable of the card out, or plug it in."`
	Catastrophic   catastrophicCmd `cmd:"" help:"Report a catastrophic error, until the driver resets the card."`
	Fail           failCmd         `cmd:"" help:"Let the next commands of a kind fail."`
	Hang           hangCmd         `cmd:"" help:"Let the next command of a kind never complete, until a reset."`
	LoseInterrupts loseCmd         `cmd:"" help:"Lose the next interrupts of a vector."`
	OverflowEQ     overflowCmd     `cmd:"" name:"overflow-eq" help:"Let the next events of an event queue find it full."`
}

// A target names a card whose server accepts faults.
type target struct {
	Card string `arg:"" name:"socket" help:"Socket of the card, which ddk-model serve --faults serves."`
}

type linkCmd struct {
	target
	State string `arg:"" enum:"up,down" help:"up or down."`
	Port  uint8  `default:"1" help:"Port of the card."`
}

type catastrophicCmd struct{ target }

type failCmd struct {
	target
	Command string `arg:"" help:"Name of the command, as serve --verbose logs it, such as SW2HW_MPT."`
	Status  string `arg:"" help:"Status, such as BAD_PARAM."`
	Count   int    `default:"1" help:"How many commands fail."`
}

type hangCmd struct {
	target
	Command string `arg:"" help:"Name of the command, as serve --verbose logs it, such as SW2HW_MPT."`
}

type loseCmd struct {
	target
	Vector int `default:"0" help:"Interrupt vector. Linux uses 0 for commands and other events that are not completions."`
	Count  int `default:"1" help:"How many interrupts are lost."`
}

type overflowCmd struct {
	target
	EQ    uint32 `name:"eq" required:"" help:"Number of the event queue. Linux uses 8 for what vector 0 reports."`
	Count int    `default:"1" help:"How many events are lost."`
}

// A fault is what a command asks of the server of a card, as one JSON value.
type fault struct {
	Kind    string `json:"kind"` // link, catastrophic, fail, hang, lose-interrupts, overflow-eq
	Port    uint8  `json:"port,omitempty"`
	Up      bool   `json:"up,omitempty"`
	Command string `json:"command,omitempty"`
	Status  string `json:"status,omitempty"`
	Vector  int    `json:"vector,omitempty"`
	EQ      uint32 `json:"eq,omitempty"`
	Count   int    `json:"count,omitempty"`
}

// Run implements the command.
func (c *linkCmd) Run(p *program) error {
	return c.inject(p, fault{Kind: "link", Port: c.Port, Up: c.State == "up"})
}

// Run implements the command.
func (c *catastrophicCmd) Run(p *program) error { return c.inject(p, fault{Kind: "catastrophic"}) }

// Run implements the command.
func (c *failCmd) Run(p *program) error {
	return c.inject(p, fault{Kind: "fail", Command: c.Command, Status: c.Status, Count: c.Count})
}

// Run implements the command.
func (c *hangCmd) Run(p *program) error { return c.inject(p, fault{Kind: "hang", Command: c.Command}) }

// Run implements the command.
func (c *loseCmd) Run(p *program) error {
	return c.inject(p, fault{Kind: "lose-interrupts", Vector: c.Vector, Count: c.Count})
}

// Run implements the command.
func (c *overflowCmd) Run(p *program) error {
	return c.inject(p, fault{Kind: "overflow-eq", EQ: c.EQ, Count: c.Count})
}

// apply injects the fault into a card.
func (f *fault) apply(m *model.Model) error {
	switch f.Kind {
	case "link":
		return m.SetLink(f.Port, f.Up)
	case "catastrophic":
		m.FailDevice()
		return nil
	case "hang":
		op, err := prm.ParseOpcode(f.Command)
		if err == nil {
			m.HangCommand(op)
		}
		return err
	}
	if f.Count < 1 {
		return fmt.Errorf("count %d: want 1 or more", f.Count)
	}
	switch f.Kind {
	case "fail":
		op, err := prm.ParseOpcode(f.Command)
		if err != nil {
			return err
		}
		s, err := prm.ParseStatus(f.Status)
		if err != nil {
			return err
		}
		if s == prm.OK {
			return errors.New("status OK is no failure")
		}
		m.FailCommand(op, s, f.Count)
	case "lose-interrupts":
		if f.Vector < 0 || f.Vector >= m.NumVectors() {
			return fmt.Errorf("vector %d: the card has 0 to %d", f.Vector, m.NumVectors()-1)
		}
		m.LoseInterrupts(f.Vector, f.Count)
	case "overflow-eq":
		m.OverflowEQ(f.EQ, f.Count)
	default:
		return fmt.Errorf("no fault is called %q", f.Kind)
	}
	return nil
}
