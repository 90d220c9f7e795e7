// Package usersuite holds the cases for user mode: SAS 2.4, and the statements about it in SAS 0 and SAS 2.1. They
// judge the whole way of a verb, from the application through package ual, package kproxy and the access layer to the
// driver.
//
// # Stage
//
//	application   calls ci verbs; a fault of a mutant may stand here (Fault.Client)
//	ual           with a user library of the case, which records its hooks (Fault.Library)
//	socket        a relay records the messages (Fault.Relay)
//	kproxy        with an access layer
//	              (Fault.Driver)
//	probe         the driver's half of the case: it records and replies to private data, and calls
//	driver        the adapter under test, as for an in-process consumer
//
// So the cases hold for every driver, with or without CapUser. Those about a driver's own user library need CapUser and
// Target.UserLibrary, and are skipped otherwise. All of this is in the worker process, except for the processes that
// are killed: they are this program, started again. Systems other than Linux have no connections between processes;
// there the cases are skipped.
//
// Package usermutants holds the faults. Package validate describes the form of cases, under "For authors of cases".
package usersuite
