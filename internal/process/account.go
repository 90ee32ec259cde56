package process

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// An Account is a user and group that a program runs as.
type Account struct {
	Name, Home string // empty if no account has the UID
	UID, GID   uint32
	Groups     []uint32 // supplementary
}

// Lookup returns the account with the name or number of a user, and of a group. An empty
// group means the user's. The error wraps fs.ErrNotExist.
func Lookup(userName, groupName string) (*Account, error) {
	a, err := accountOf(userName, groupName != "")
	if err != nil || groupName == "" {
		return a, err
	}
	g, err := user.LookupGroup(groupName)
	if err != nil {
		g, err = user.LookupGroupId(groupName)
	}
	if err == nil {
		groupName = g.Gid
	}
	if a.GID, err = parseID(groupName); err != nil {
		return nil, notFound("group: %q is neither the name nor the number of a group", groupName)
	}
	return a, nil
}

// accountOf returns the account of a user. A number without an account is accepted if a
// group is given too.
func accountOf(name string, grouped bool) (*Account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		u, err = user.LookupId(name)
	}
	if err != nil {
		uid, isNumber := parseID(name)
		if isNumber != nil {
			return nil, notFound("user: %q is neither the name nor the number of a user", name)
		}
		if !grouped {
			return nil, notFound("user: no account has the number %s; set group, too", name)
		}
		return &Account{UID: uid}, nil
	}
	a := &Account{Name: u.Username, Home: u.HomeDir}
	uid, _ := parseID(u.Uid)
	gid, _ := parseID(u.Gid)
	a.UID, a.GID = uid, gid
	ids, err := u.GroupIds()
	if err != nil {
		return nil, &fault{fmt.Sprintf("user: find the groups of %s: %v", name, err), err}
	}
	for _, id := range ids {
		n, _ := parseID(id)
		a.Groups = append(a.Groups, n)
	}
	return a, nil
}

func parseID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}

// credentialOf returns the credentials to start a program with, or nil if they are those
// of this process.
func credentialOf(userName, groupName string) (*syscall.Credential, error) {
	if userName == "" && groupName == "" {
		return nil, nil
	}
	own := userName == ""
	if own {
		userName = strconv.Itoa(os.Geteuid())
	}
	a, err := Lookup(userName, groupName)
	if err != nil {
		return nil, err
	}
	if int(a.UID) == os.Geteuid() && int(a.GID) == os.Getegid() {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, &fault{"user, group: only root can start a program as another user or group", fs.ErrPermission}
	}
	c := &syscall.Credential{Uid: a.UID, Gid: a.GID, Groups: a.Groups}
	return c, nil
}
