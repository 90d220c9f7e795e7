// Package validate is the engine of the certifier. It tests a driver as a black box, through package ci alone,
// requirement by requirement. It imports no driver and no case. Both are values that a program puts together:
// cmd/ddk-validate, or a vendor's test.
//
// # Terms
//
//	requirement  one rule with a stable id, a level and a source            package validate/req
//	case         a function that proves one requirement (Case)              packages validate/suite/...
//	area         requirements and cases of one subject (Area)
//	suite        the areas of a package (Suite)
//	catalog      suites put together and checked for duplicates (Catalog)
//	mutant       a driver with a deliberate fault, for the self test        package validate/mutant
//	driver       how to open HCAs of one kind (Driver); target, the opened HCAs (Target)
//	feature      a part of the interface, a row of the matrix (Feature)
//	profile      the features and capabilities that a certificate covers (Profile)
//	plan         what to run and how (Plan); Plan.Run returns a Report
//
// # For authors of cases
//
// Requirements and cases are package-level variables of a suite. A case names its requirements as Go values, so that
// removing a requirement with a case does not compile, and declaring a case registers it:
//
//	var sends = area() // in suite.go: &validate.Area{Scope: req.Driver, Complete: complete}
//
//	var ciPostSend01 = sends.Must("CI-PostSend-01", "IBTA 11.4.1.1", "ci_post_send (55)",
//		"A full queue rejects the next request with InsufficientResources.")
//
//	var _ = sends.Add("rc.send.full", "post to a full send queue", func(t *validate.T) {
//		p := kit.RC(t, kit.Depth(4))            // opened, registered, connected, and cleaned up afterwards
//		n, err := p.A.QP.PostSend(p.A.SendWRs(5))
//		kit.Want(t, err, "PostSend of 5 to a queue of 4", ci.InsufficientResources)
//		kit.Equal(t, "requests accepted", n, 4)
//		p.A.CQ.Wait(4)
//	}, ciPostSend01, req.SAS2_1_23)
//
// A file holds one area. Each requirement stands above its cases. The suite joins the areas:
//
//	func Suite() validate.Suite { return validate.NewSuite("ci", sends, receives) }
//
// The mutants of a suite are in a package of their own below it, such as suite/cmsuite/cmmutants, in files with the
// names of the areas. They name requirements by id. Only programs with a self test import them.
//
// All suites of the kit have this form. NewCase and req.Scope.Must name requirements by id instead.
//
// Rules
//
//   - The first requirement is the one that the case proves. A failure is charged to it, unless it is recorded inside
//     T.Charge or names another requirement in Failure.Rule. Case.Checks lists the requirements that are charged so.
//     The others are only touched, and a failure charged to one of them is an error of the case. A requirement counts
//     as tested if a case can charge it and a mutant breaks it (suite/suitemutants).
//   - A failure during set-up (opening, connecting) is marked Setup: the driver failed, but the requirement was not
//     tested. The constructors of package kit mark their failures so.
//   - Ids never change. Ids of cases are dotted and lower case: area.subject.detail. Package req has the forms of
//     requirement ids. A test of cmd/ddk-validate compares all ids with a committed listing.
//   - A case declares what it needs (Needs): capabilities, link, number of HCAs or ports, faults on the wire. If the
//     driver does not claim that, the case is skipped with the reason. Run itself tests no need, except by T.Skip with
//     a reason that the attributes prove.
//   - Run owns nothing but T. T.Cleanup destroys everything that Run creates, in reverse order (package kit does that).
//     Objects that are left are a failure where the target counts them.
//   - A case with faults on the link declares Needs.Impair and calls T.Impair. The link is good until then, and again
//     after the case. One that does without faults where there are none declares Needs.MayImpair.
//   - A case that sends and receives packets itself declares Needs.Wire and opens an end of the link with T.Wire. It
//     records packets with T.Packet and T.Remark, so that a failure has its capture. Package suite/wiresuite has a peer
//     that does all that.
//   - A case does not sleep. It waits with kit's CQ.Wait and Events.Wait, which have the case's deadline. T.Context
//     ends with it.
//   - A case takes random numbers from T.Rand alone. They follow from the seed and the case's id, so that a failure can
//     be repeated.
//   - A case finds its mutants whatever the scheduler does: by counting, by order, or by a rendezvous. Where only
//     chance shows a fault, the case repeats until a miss is less likely than one in a million.
//   - T.Fail and the functions that call it end the case with runtime.Goexit, so they run on the case's goroutine.
//     Other goroutines, started with T.Go, use T.Report, which records a failure and returns.
//   - A case with several variants names each with T.Step before it runs. A failure names its step.
//   - Traffic that must succeed and does not is reported with Failure.Doubt, so that a loss on the link is not charged
//     to the driver. T.Inconclusive is for a case with evidence of what lost its traffic. The waits of package kit set
//     Doubt where it applies.
//   - A permitted variation is a T.Note. A choice between contradictory sources is a T.Deviation. Neither fails.
//
// # For vendors
//
//	func TestDriver(t *testing.T) {
//		d := validate.Driver{Name: "mine", Open: open}
//		validate.TestDriver(t, d, validate.TestOptions{Catalog: cisuite.Catalog()})
//	}
//
// runs the same cases as subtests, each in a worker process, so that a panic or a hang of the driver fails one case.
// See Driver for what Open returns, and package cmd/ddk-validate/cli for a command line with your driver linked in.
//
// # Workers
//
// Cases run in worker processes: the same binary, started again. Two inherited pipes, the channel, connect a worker to
// its parent. On one the parent sends one case at a time. On the other the worker sends events, one JSON object a line
// (Event). Each event begins with a nonce that the parent chose for this worker. Standard output and standard error
// belong to the driver: the parent reads them, keeps the first 64 KiB and the last 192 KiB, and prints the end with a
// failure. Standard input is empty.
//
// When a worker dies, the running case fails with what was printed. A worker that hangs prints its goroutines and is
// killed. Either way a new worker runs the next case. Lines without the nonce among the events, or an early end of the
// events, fail the running case, too. On Unix a worker leads a process group. The parent kills the group and then waits
// for at most a few seconds, so that a run ends whatever a driver does. An interrupt ends the run with a report; a
// second one ends it at once.
//
// This protects against mistakes: a driver that prints, floods, crashes, hangs, closes descriptors or leaves children.
// It does not protect against a driver that is written to deceive, since the driver runs in the worker's process. Such
// a driver can read the nonce from memory, write events with it, and change the certifier's code or the bytes that a
// case compares. The report identifies what was certified by the hash of the binary. Where a driver is not trusted,
// build that binary from sources you have read, or certify through a process boundary (package
// validate/through, --through user), so that the cases run outside the driver's process. Such a driver cannot
// forge results. If its process ends, Target.Exited reports it, and the end is charged to the running case.
//
// Windows has no process groups, so children of a driver survive. Systems without inherited files (js, wasip1, plan9)
// run cases in process.
//
// # Losses
//
// Traffic can fail because the link lost a packet, or because the machine did not run a process in time. A failure that
// may have such a cause is in doubt (Failure.Doubt): DoubtLoss for traffic that must succeed and did not, DoubtTime for
// what did not arrive by a deadline of seconds. A hang is treated as DoubtTime.
//
// The engine measures the conditions of an attempt (Conditions): whether the link can lose packets at all
// (Target.Lossless), whether it lost any of a thousand that Target.Probe sent right after the attempt, how late the
// machine ran a goroutine of the worker that was due every 10 ms, and on Linux how long the worker's threads waited for
// a processor. Link and machine explain a failure as follows:
//
//   - DoubtLoss, if the link is not known to be quiet (neither Lossless nor a probe without a loss), or if the machine
//     ran the goroutine 50 ms late at least once, or if the threads waited for 50 ms;
//   - DoubtTime, if the goroutine waited for at least half of the attempt's time, if the threads waited that long while
//     they ran for less than half of the time, or if the probe lost packets;
//   - DoubtNetwork, a wrong answer of a peer that the certifier does not drive, if the probe lost packets;
//   - a hang, as DoubtTime but without the probe;
//   - T.Inconclusive always, since the case has evidence of its own.
//
// A case whose failures are all explained is run again, alone and in a new worker, with timeouts twice and then four
// times as long, up to three times. It passes if an attempt passes, with a note. It fails if an attempt has a failure
// that link and machine do not explain. Otherwise it is inconclusive: that withholds the certificate (exit status 5)
// and is no finding against the driver.
//
// A driver therefore cannot hide behind a loss: on a quiet link and an idle machine a failure of its traffic has no
// explanation. Where the link is not known to be quiet, the driver is not certified either. A driver that uses up the
// machine's time is inconclusive at best.
//
// A failure without an explanation is run again once. If the case then passes, it is flaky, which withholds the
// certificate, too (exit status 6). After five cases that lost their traffic in every attempt, further ones are not run
// again.
//
// # Status
//
//	pass          the requirement holds as far as the case can test it
//	fail          it does not, or the driver panicked, hung, or left something behind
//	flaky         it failed, and passed when it was run again
//	skip          the driver does not claim what the case needs, or the case is outside the profile
//	waived        it failed, and an expectation file gives the reason
//	error         the certifier itself failed; the driver was not tested
//	inconclusive  it lost traffic in every attempt, and the driver need not be the cause
package validate
