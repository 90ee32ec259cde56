package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/private"
)

// A new database is private to its user, and so are the files beside it, unless the database
// is shared with its group.
const newMode fs.FileMode = 0o600

// creating is held while a database file is created: no other handle of this process may have
// it open when the descriptor is closed, since that would end that handle's locks.
var creating sync.Mutex

// create creates an empty file unless it exists. Opening the file reports any error.
func create(path string, mode fs.FileMode) {
	if path == memory {
		return
	}
	creating.Lock()
	defer creating.Unlock()
	_ = private.Create(path, mode)
}

// shared reports whether a database is shared with its group.
func shared(database fs.FileInfo) bool { return database.Mode()&0o060 == 0o060 }

// modeBeside returns the mode of new files beside a database.
func modeBeside(database fs.FileInfo) fs.FileMode {
	if shared(database) {
		return 0o660
	}
	return newMode
}

// lockFolder creates the folder of lock files of a database, or checks the existing one: its
// owner could remove and replace the files that others lock.
func lockFolder(dir string, database fs.FileInfo) error {
	mode := fs.FileMode(0o700)
	if shared(database) {
		mode = 0o770
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, mode)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return &pawl.Error{Kind: pawl.Unavailable, Message: "the folder of lock files cannot be made", Err: err}
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return &pawl.Error{Kind: pawl.Unavailable, Message: "the folder of lock files cannot be used", Err: err}
	}
	why := ""
	switch owner := private.Owner(info); {
	case !info.IsDir():
		why = "is no folder"
	case owner != os.Geteuid() && owner != private.Owner(database) && owner != 0:
		why = fmt.Sprintf("is of the user with the number %d, and neither this user's nor the database's", owner)
	case info.Mode().Perm()&0o002 != 0:
		why = fmt.Sprintf("may be written to by everybody: its mode is %04o", info.Mode().Perm())
	default:
		return nil
	}
	return &pawl.Error{Kind: pawl.Refused, Message: "the folder of lock files " + dir + " " + why, Hint: "remove it, or put the database into a folder of its own"}
}
