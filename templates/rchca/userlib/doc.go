// Package userlib is the user library of the driver: the part that runs in the processes of applications. It is
// optional: without it, all verbs of these processes are messages to the daemon.
//
// Applications list it when they connect to the daemon:
//
//	client, err := ual.Dial(ual.Config{Libraries: []*ci.UserLibrary{userlib.New()}})
//
// The library of the template has the hooks of all verbs that create an object. A pre hook sends private data to the
// driver (userabi.Request), and a post hook reads what the driver returned (userabi.Answer) and keeps it as the
// library's own state of the object. Sends are posted, and completions polled, in memory that the driver shares with
// the process (package userqueues). The other verbs of the data path are messages to the daemon: their functions are
// nil.
//
// # The order of a create
//
//  1. The application calls PD.CreateCQ. The user access layer calls preCreateCQ, which allocates what the bypass
//     needs and fills in the UserBuffer. An error ends the verb, and nothing is sent. [SAS-2.4-04, -05]
//  2. The proxy copies the UserBuffer and calls the driver, which finds the copy in CQCreate.User. [SAS-2.4-06 … -09]
//  3. postCreateCQ runs, also if the verb failed. It maps what the driver has passed and sets the handle of the CQ, or
//     releases what preCreateCQ has allocated. [SAS-2.4-12]
//
// # Rules
//
//   - Pre presets UserBuffer.Status with a failure. The driver sets it to 0, so Post can tell whether the driver has
//     answered.
//   - Hooks of an object run only if the library has set a handle for its parent: PD for the objects below it, CA for
//     the PD. To leave a kind of object to the proxy, do not set its handle.
//   - Hooks may run concurrently for different objects. The functions of the data path may run concurrently for one.
//   - Do not rely on hooks at the end of a process: it may be killed at any moment. The driver releases everything on
//     its own. [SAS-2.4-15]
//
// Package ci documents the types: UserLibrary, UserBuffer, UserCQ, UserQP.
package userlib
