package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/profile"
	"github.com/pawl-dev/pawl/internal/remote"
)

const profileLong = `Keep the servers that you use under names, each with its own credentials.

The file is $XDG_CONFIG_HOME/pawl/config.yaml, or ~/.config/pawl/config.yaml, or the one that
PAWL_CONFIG names:

  default: dev
  profiles:
    dev: {server: "http://127.0.0.1:7295"}
    prod:
      server: https://pawl.example.com
      token_command: pass show pawl/prod   # or token_file: FILE
      workspace: billing
      ca: ca.pem                           # and client_cert, client_key
      confirm: true

A relative path is relative to the folder of the file. A file that says where secrets are must
have the mode 0600. token_command is run by /bin/sh, for a minute at most; it prints the secret
of a token. With confirm a command that changes something asks for consent, or wants --yes.

A flag comes first, then PAWL_SERVER, PAWL_PROFILE, PAWL_DATABASE, the default profile, and the
default database. A profile's server gets nothing but the profile's credentials, and the
flags for credentials are refused. --workspace and PAWL_WORKSPACE come before its workspace.`

func newProfile(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "profile", Short: "Keep servers under names", Long: profileLong,
		Example: "  pawl profile add prod --server https://pawl.example.com --token-file prod.token --confirm\n  pawl profile use prod\n  pawl --profile prod jobs",
	})
	c.AddCommand(newProfileList(a), newProfileAdd(a), newProfileUse(a), newProfileRemove(a))
	return c
}

// configFile returns the path of the file of profiles.
func (a *app) configFile() (string, error) {
	if path := a.getenv("PAWL_CONFIG"); path != "" {
		return path, nil
	}
	config := a.getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		config = filepath.Join(a.getenv("HOME"), ".config")
	}
	if !filepath.IsAbs(config) {
		return "", usage("name a file with PAWL_CONFIG", "neither XDG_CONFIG_HOME nor HOME says where the profiles are")
	}
	return filepath.Join(config, "pawl", "config.yaml"), nil
}

// profiles returns the profiles, and the path of their file. There are none if there is no file,
// unless PAWL_CONFIG names it.
func (a *app) profiles() (*profile.File, string, error) {
	path, err := a.configFile()
	if err != nil {
		return nil, "", err
	}
	f, err := profile.Read(path)
	if pawl.KindOf(err) == pawl.NotFound && a.getenv("PAWL_CONFIG") == "" {
		return &profile.File{}, path, nil
	}
	if pawl.KindOf(err) == pawl.NotFound {
		err = hinted(err, "PAWL_CONFIG names it; make it with: pawl profile add NAME --server URL")
	}
	return f, path, err
}

// defaultProfile sets the profile to the default one, if there is one.
func (a *app) defaultProfile() error {
	if path, err := a.configFile(); err != nil || path == "" {
		return nil // nothing says where the file is: there is none
	}
	f, _, err := a.profiles()
	if err == nil {
		a.profile = f.Default
	}
	return err
}

// useProfile sets the server and the credentials to those of the profile.
func (a *app) useProfile() error {
	if err := a.noCredentials("cannot be given for a profile, which has its own", "name the server with --server, or change the profile"); err != nil {
		return err
	}
	f, path, err := a.profiles()
	if err != nil {
		return err
	}
	p, err := f.Find(a.profile)
	if err != nil {
		return err
	}
	at := func(file string) string { return profile.At(path, a.getenv("HOME"), file) }
	a.server, a.tokenFile, a.tokenCommand = p.Server, at(p.TokenFile), p.TokenCommand
	a.ca, a.cert, a.key, a.confirm = at(p.CA), at(p.ClientCert), at(p.ClientKey), p.Confirm
	if a.workspace == "" && a.getenv("PAWL_WORKSPACE") == "" {
		a.workspace = p.Workspace
	}
	return nil
}

// keyOf names the source of a value: a flag, or a key of the profile.
func (a *app) keyOf(flag, key string) string {
	if a.profile == "" {
		return flag
	}
	return "profile " + a.profile + ": " + key
}

func newProfileList(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "list", Short: "List the profiles",
		Long:    "List the profiles, by name. The default one has a star. TOKEN says where the secret of its\ntoken comes from, which is not shown.",
		Example: "  pawl profile list\n  pawl profile list -o json",
		Args:    want(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			f, path, err := a.profiles()
			if err != nil {
				return err
			}
			list := listed(f)
			return a.show(form, list, func() error {
				if len(list) == 0 {
					fmt.Fprintln(a.stderr, "no profiles in "+path)
					return nil
				}
				return console.Table(a.stdout, profileRows(list))
			})
		},
	}
	bindForm(a, c, &form, "a list of profiles")
	return c
}

// A listedProfile is what is shown of a profile.
type listedProfile struct {
	Name    string `json:"name"`
	Default bool   `json:"default"`
	profile.Profile
}

func listed(f *profile.File) []listedProfile {
	list := []listedProfile{}
	for _, name := range f.Names() {
		list = append(list, listedProfile{name, name == f.Default, f.Profiles[name]})
	}
	return list
}

func profileRows(list []listedProfile) [][]string {
	rows := [][]string{{"", "NAME", "SERVER", "WORKSPACE", "TOKEN", "CONFIRM"}}
	for _, p := range list {
		star, token, confirm := "", "-", "no"
		if p.Default {
			star = "*"
		}
		switch {
		case p.TokenFile != "":
			token = "file " + p.TokenFile
		case p.TokenCommand != "":
			token = "command"
		case p.ClientCert != "":
			token = "certificate"
		}
		if p.Confirm {
			confirm = "yes"
		}
		rows = append(rows, []string{star, p.Name, p.Server, p.Workspace, token, confirm})
	}
	return rows
}

func newProfileAdd(a *app) *cobra.Command {
	var p profile.Profile
	isDefault := false
	c := &cobra.Command{
		Use: "add NAME --server URL", Short: "Add a profile",
		Long: `Add a profile to the file, which is made with the mode 0600 if it does not exist. The flags
are those by which any command names a server: --server, --workspace, --ca, --token-file,
--client-cert and --client-key, and --token-command. The server is not asked for anything. A
name that is taken is a conflict (exit 5).`,
		Example: "  pawl profile add dev --server http://127.0.0.1:7295 --default\n  pawl profile add prod --server https://pawl.example.com --token-command \"pass show pawl\" --confirm",
		Args:    want(1, 1, "a NAME"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if a.server == "" {
				return usage("usage: "+c.UseLine(), "%s needs a --server", c.CommandPath())
			}
			if _, err := remote.Parse(a.server); err != nil {
				return badServer(err)
			}
			p.Server = a.server
			if c.Flags().Changed("workspace") {
				p.Workspace = a.workspace
			}
			for to, path := range map[*string]string{&p.TokenFile: a.tokenFile, &p.CA: a.ca, &p.ClientCert: a.cert, &p.ClientKey: a.key} {
				if path != "" {
					if *to, err = filepath.Abs(path); err != nil {
						return err
					}
				}
			}
			return a.changeProfiles(func(f *profile.File) error {
				if _, taken := f.Profiles[args[0]]; taken {
					return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("there is a profile %q already", args[0]), Hint: "choose another name, or remove that one with: pawl profile remove " + console.Shell(args[0])}
				}
				f.Profiles[args[0]] = p
				if isDefault {
					f.Default = args[0]
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&p.TokenCommand, "token-command", "", "a command for /bin/sh that prints the secret of the token")
	c.Flags().BoolVar(&p.Confirm, "confirm", false, "ask for consent to each change")
	c.Flags().BoolVar(&isDefault, "default", false, "use it where nothing else names a server or a database")
	return c
}

// changeProfiles changes the file of profiles.
func (a *app) changeProfiles(change func(*profile.File) error) error {
	path, err := a.configFile()
	if err != nil {
		return err
	}
	return profile.Change(path, change)
}

func newProfileUse(a *app) *cobra.Command {
	none := false
	c := &cobra.Command{
		Use: "use NAME", Short: "Make a profile the default",
		Long:    "Use a profile where neither a flag nor a variable names a server or a database. With --none\nthere is no default: commands use the database again.",
		Example: "  pawl profile use prod\n  pawl profile use --none",
		Args: func(c *cobra.Command, args []string) error {
			if none {
				return want(0, 0, "no argument with --none")(c, args)
			}
			return want(1, 1, "a NAME, or --none")(c, args)
		},
		ValidArgsFunction: a.completeFirstProfile,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.changeProfiles(func(f *profile.File) error {
				if none {
					f.Default = ""
					return nil
				}
				_, err := f.Find(args[0])
				f.Default = args[0]
				return err
			})
		},
	}
	c.Flags().BoolVar(&none, "none", false, "have no default profile")
	return c
}

func newProfileRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a profile",
		Long:    "Remove a profile from the file. If it is the default one, there is no default any more. The\nfile of its token stays.",
		Example: "  pawl profile remove prod",
		Args:    want(1, 1, "a NAME"), ValidArgsFunction: a.completeFirstProfile,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.changeProfiles(func(f *profile.File) error {
				_, err := f.Find(args[0])
				delete(f.Profiles, args[0])
				if f.Default == args[0] {
					f.Default = ""
				}
				return err
			})
		},
	}
}

// completeFirstProfile offers the profiles as the only argument of a command.
func (a *app) completeFirstProfile(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeProfiles(c, args, begun)
}

// completeProfiles offers the names of the profiles to the shell.
func (a *app) completeProfiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	f, _, err := a.profiles()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, name := range f.Names() {
		names = append(names, name+"\t"+f.Profiles[name].Server)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
