package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// A reach says what a command works on.
type reach int

const (
	alone    reach = iota // neither a database nor a server
	onHost                // what runs on this host, or is to run here
	onAgents              // load agents, with the flags for credentials
	onData                // a database, and not through a server
	onFiles               // files; a server, if a flag names one, does the computing
	onBoth                // a database or a server, with the same outcome
)

// A row is what there is to know about where a command works.
type row struct {
	reach  reach
	writes bool   // it may change what others see
	notes  string // for docs/commands.md
}

// rows are the commands that do something, by what is behind "pawl".
var rows = map[string]row{
	"agent":                 {reach: onAgents, writes: true},
	"agent show":            {reach: onAgents},
	"approve":               {reach: onBoth, writes: true},
	"audit checkpoint":      {reach: onBoth},
	"audit compare":         {reach: onBoth, notes: "a server counts entities that have moved since, and does not check them"},
	"audit export":          {reach: onBoth},
	"audit list":            {reach: onBoth},
	"audit verify":          {reach: onBoth, notes: "with --file it needs neither"},
	"bench":                 {reach: onData},
	"completion bash":       {},
	"completion fish":       {},
	"completion powershell": {},
	"completion zsh":        {},
	"crew approve":          {reach: onHost, writes: true},
	"crew assign":           {reach: onHost, writes: true},
	"crew cancel":           {reach: onHost, writes: true},
	"crew diff":             {reach: onHost},
	"crew doctor":           {reach: onHost},
	"crew fail":             {reach: onHost, writes: true},
	"crew heartbeat":        {reach: onHost, writes: true},
	"crew history":          {reach: onHost},
	"crew hook":             {reach: onHost},
	"crew inbox":            {reach: onHost, writes: true, notes: "changes something with --ack"},
	"crew init":             {reach: onHost, writes: true},
	"crew list":             {reach: onHost},
	"crew log":              {reach: onHost},
	"crew merge":            {reach: onHost, writes: true},
	"crew patrol":           {reach: onHost, writes: true, notes: "changes something with --fix"},
	"crew prompt":           {reach: onHost},
	"crew queue":            {reach: onHost},
	"crew recycle":          {reach: onHost, writes: true},
	"crew request-changes":  {reach: onHost, writes: true},
	"crew reset":            {reach: onHost, writes: true},
	"crew retry":            {reach: onHost, writes: true},
	"crew review":           {reach: onHost, writes: true, notes: "runs the gates, and keeps their results"},
	"crew run":              {reach: onHost, writes: true},
	"crew send":             {reach: onHost, writes: true},
	"crew show":             {reach: onHost},
	"crew spawn":            {reach: onHost, writes: true},
	"crew start":            {reach: onHost, writes: true},
	"crew submit":           {reach: onHost, writes: true},
	"crew watch":            {reach: onHost},
	"dev":                   {reach: onData},
	"doctor":                {reach: onBoth, notes: "--integrity needs the database"},
	"events":                {reach: onBoth},
	"exec":                  {reach: onData, notes: "through a server: `submit --wait`"},
	"help":                  {},
	"job cancel":            {reach: onBoth, writes: true},
	"job diff":              {reach: onBoth},
	"job history":           {reach: onBoth},
	"job logs":              {reach: onBoth},
	"job move":              {reach: onBoth, writes: true},
	"job pause":             {reach: onBoth, writes: true},
	"job redact":            {reach: onBoth, writes: true},
	"job resume":            {reach: onBoth, writes: true},
	"job retry":             {reach: onBoth, writes: true, notes: "through a server, workers run the new job"},
	"job show":              {reach: onBoth},
	"job signal":            {reach: onBoth, writes: true},
	"job why":               {reach: onBoth},
	"jobs":                  {reach: onBoth, notes: "through a server, --stuck lists 100 jobs at most"},
	"load compare":          {reach: onFiles, notes: byName},
	"load import":           {},
	"load list":             {reach: onFiles},
	"load plan":             {reach: onAgents},
	"load report":           {reach: onFiles, notes: byName},
	"load run":              {reach: onAgents},
	"load schema":           {},
	"load validate":         {},
	"load-engine":           {reach: onHost, writes: true, notes: "what `pawl agent` starts"},
	"machine list":          {},
	"machine show":          {},
	"migrate down":          {reach: onData},
	"migrate status":        {reach: onData},
	"migrate up":            {reach: onData},
	"plan":                  {reach: onBoth},
	"profile add":           {},
	"profile list":          {},
	"profile remove":        {},
	"profile use":           {},
	"prune":                 {reach: onBoth, writes: true},
	"queue history":         {reach: onBoth},
	"queue list":            {reach: onBoth},
	"queue pause":           {reach: onBoth, writes: true},
	"queue resume":          {reach: onBoth, writes: true},
	"quota clear":           {reach: onBoth, writes: true},
	"quota list":            {reach: onBoth},
	"quota preset":          {reach: onBoth, writes: true},
	"quota release":         {reach: onBoth, writes: true},
	"quota reserve":         {reach: onBoth, writes: true},
	"quota set":             {reach: onBoth, writes: true},
	"reject":                {reach: onBoth, writes: true},
	"run":                   {reach: onData, notes: "through a server: `submit --wait`"},
	"schedule add":          {reach: onBoth, writes: true},
	"schedule list":         {reach: onBoth},
	"schedule next":         {},
	"schedule pause":        {reach: onBoth, writes: true},
	"schedule remove":       {reach: onBoth, writes: true},
	"schedule resume":       {reach: onBoth, writes: true},
	"schedule show":         {reach: onBoth},
	"schedule trigger":      {reach: onBoth, writes: true},
	"schedule update":       {reach: onBoth, writes: true},
	"server":                {reach: onData},
	"service history":       {reach: onBoth, notes: services},
	"service list":          {reach: onBoth, notes: services},
	"service logs":          {reach: onBoth, notes: services},
	"service reload":        {reach: onBoth, writes: true, notes: services},
	"service restart":       {reach: onBoth, writes: true, notes: services},
	"service show":          {reach: onBoth, notes: services},
	"service start":         {reach: onBoth, writes: true, notes: services},
	"service stop":          {reach: onBoth, writes: true, notes: services},
	"service why":           {reach: onBoth, notes: services},
	"simulate":              {reach: onFiles},
	"step resolve":          {reach: onBoth, writes: true},
	"step retry":            {reach: onBoth, writes: true},
	"step skip":             {reach: onBoth, writes: true},
	"submit":                {reach: onBoth, writes: true, notes: "--dir needs the database"},
	"supervise":             {reach: onHost},
	"token create":          {reach: onBoth, writes: true},
	"token history":         {reach: onBoth},
	"token list":            {reach: onBoth},
	"token revoke":          {reach: onBoth, writes: true},
	"token show":            {reach: onBoth},
	"validate":              {reach: onFiles},
	"verify":                {reach: onFiles},
	"version":               {},
	"watch":                 {reach: onBoth},
	"webhook create":        {reach: onBoth, writes: true},
	"webhook delete":        {reach: onBoth, writes: true},
	"webhook deliveries":    {reach: onBoth},
	"webhook history":       {reach: onBoth},
	"webhook list":          {reach: onBoth},
	"webhook pause":         {reach: onBoth, writes: true},
	"webhook redeliver":     {reach: onBoth, writes: true},
	"webhook resume":        {reach: onBoth, writes: true},
	"webhook rotate":        {reach: onBoth, writes: true},
	"webhook show":          {reach: onBoth},
	"webhook test":          {reach: onBoth, writes: true},
	"webhook update":        {reach: onBoth, writes: true},
	"worker":                {reach: onBoth, writes: true},
	"worker history":        {reach: onBoth},
	"worker list":           {reach: onBoth},
	"worker pause":          {reach: onBoth, writes: true},
	"worker resume":         {reach: onBoth, writes: true},
	"worker show":           {reach: onBoth},
	"worker terminate":      {reach: onBoth, writes: true},
	"workflow list":         {reach: onBoth},
	"workflow register":     {reach: onBoth, writes: true, notes: "through a server, it has no folder"},
	"workflow show":         {reach: onBoth},
	"workflow versions":     {reach: onBoth},
}

const byName = "through a server, of the runs that it shows, by their names"

const services = "without a server: the services of this host"

// pathOf returns what is behind "pawl" in the name of a command.
func pathOf(c *cobra.Command) string {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	return path
}

// rowOf returns the row of a command. One that only holds others works alone: it shows its help.
func rowOf(c *cobra.Command) row { return rows[pathOf(c)] }
