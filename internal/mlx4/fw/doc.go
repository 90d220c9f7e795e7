// Package fw brings up a ConnectX-3 and gives its driver what lies below the verbs: firmware commands, adapter memory
// (ICM), numbers of objects, address translations, doorbells, and events.
//
//	d, err := fw.Open(ctx, function, fw.Config{})
//	…
//	qpn, err := d.AllocQPs(ctx, 1, 1)
//	err = d.Cmd(ctx, prm.CmdRST2INIT, fw.Args{In: mailbox, Modifier: qpn})
//
// # Bring-up
//
// Open takes the ownership of the adapter, resets it, starts its firmware, and initializes it with the tables of a
// Profile. Commands are polled at first. Then they complete by events, unless Config says otherwise. Close does the
// reverse. After a failure, see Device.Failed, the only way on is Close and another Open.
//
// # Concurrency
//
// All methods of a Device and of its objects may be called concurrently. Functions that handle completion events run on
// the goroutine of an interrupt vector, or of the poller, and must not block. Functions that handle other events run on
// one goroutine of the device, in order of the events, and may execute commands.
//
// # Errors
//
// A command that the firmware rejects returns a *CommandError. ErrFailed is wrapped by all errors of a device that has
// failed, and bus.ErrGone, too, if its function has gone. ci.StatusOf returns a status of the verbs for each of them.
package fw
