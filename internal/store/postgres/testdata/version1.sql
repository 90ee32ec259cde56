-- What version 1 of Pawl wrote: a worker, and jobs that wait, run, completed and failed.
insert into audit (job, ord, seq, state, event, reason, actor, request_id, metadata, at, hash) values
	(391835750519275522, 0, 1, 'SUBMITTED', 'submit', '', 'test', '', NULL, 1795298570983381, '\xe6bf674ddce806f18f215344b7dac869fc943e597e0b7dd3f927b76421a999ab'),
	(391835750519275522, 0, 2, 'PENDING', 'validate', '', 'test', '', NULL, 1795298570983381, '\x1cb959eeddc2a2ffeea056dbcdf9c1e5cbe55fc6fa16df215a956daa788713e7'),
	(391835750519275522, 1048576, 1, 'pending', 'create', '', 'test', '', NULL, 1795298570983381, '\x7c8b23da4f6e2556c54a9eed52ea987e44c5f7b32b7b13b91d504b79cefa7126'),
	(391835750519275522, 2097152, 1, 'pending', 'create', '', 'test', '', NULL, 1795298570983381, '\x0fc56840c8a4e6be9ee7b1e2120b59572271ebb2fa4e62e892709e3534f1420c'),
	(391835750519275523, 0, 1, 'SUBMITTED', 'submit', '', 'test', '', NULL, 1795298570983381, '\x9eeeed4c04832650934597e1c17fb371e47c4f53c510cc3624acbe98eb267f15'),
	(391835750519275523, 0, 2, 'PENDING', 'validate', '', 'test', '', NULL, 1795298570983381, '\x2b1971f5042b7657383debc3ecfe52f6ff9caab7f32fe2e74114cc9a0eb51c9c'),
	(391835750519275523, 1048576, 1, 'pending', 'create', '', 'test', '', NULL, 1795298570983381, '\x18dffce9fce495d8eacc3fbb1ed69fa95d73614c5ebf00154a23cf956fd3009e'),
	(391835750519275523, 2097152, 1, 'pending', 'create', '', 'test', '', NULL, 1795298570983381, '\x265fc39e086cd884b4bc51647e55d069ad50444613c6f5769de822edf5a73dad'),
	(391835750519275524, 0, 1, 'SUBMITTED', 'submit', '', 'test', '', NULL, 1795298570983381, '\x7c8f484d57fa19961cd4472a5f1bfc9d4a03a5e5cdf8c8c8e3e08c166e999cb6'),
	(391835750519275524, 0, 2, 'PENDING', 'validate', '', 'test', '', NULL, 1795298570983381, '\x17ec1693298df1f09c80cda00c297a0c0d4a651c9acca5aecb35a150d1985b72'),
	(391835750519275524, 1048576, 1, 'pending', 'create', '', 'test', '', NULL, 1795298570983381, '\x4f94e18279e9379504f4c638ee5385d03bef1e23c2abcec5d0e3a9eb80e1b6ac'),
	(391835750519275524, 2097152, 1, 'pending', 'create', '', 'test', '', NULL, 1795298570983381, '\xb1a2da3e9e9adf1db55da57ef93fb42343da6ec170fdcbe6dc5dc7657d892afe'),
	(391835750519275525, 0, 1, 'SUBMITTED', 'submit', '', 'test', '', NULL, 1795298570983381, '\x89455d1ffd83a3f717260360e70d96503e14ce1280fa6c25f2abecf8ab4ea53a'),
	(391835750519275525, 0, 2, 'PENDING', 'validate', '', 'test', '', NULL, 1795298570983381, '\xbe91bbe40413a1d06ef2f00beee13de4c4a6497afa4fa6c4f2f74a3e7effe737'),
	(391835750519275525, 1048576, 1, 'pending', 'create', '', 'test', '', NULL, 1795298570983381, '\x43112203c56d01ea971104bf0831878855817386781a45168b8bbc9b4ce113f8'),
	(391835750519275525, 2097152, 1, 'pending', 'create', '', 'test', '', NULL, 1795298570983381, '\xa13a00194897cac55ae6d6fe7757294cbb91d4f0d2839cd2c2d2201d38296e21'),
	(391835750519275526, 0, 1, 'SUBMITTED', 'submit', '', 'test', '', NULL, 1795298570983381, '\x2120481ed1ae7794e13a91f903522b02cd0f3f41a90319cd355b89dc40e6764a'),
	(391835750519275526, 0, 2, 'PENDING', 'validate', '', 'test', '', NULL, 1795298570983381, '\x5faef22ec2b00d56eec4b24222356d89ba50f84b597d56a40bedb013a9e6971c'),
	(391835750519275526, 1048576, 1, 'pending', 'create', '', 'test', '', NULL, 1795298570983381, '\xc9c4e327884a7d1ab313cf578a90eabb329ede88560901a6dcdc736921f3170c'),
	(391835750519275526, 2097152, 1, 'pending', 'create', '', 'test', '', NULL, 1795298570983381, '\x09e0927dbfc154198e8a0cb925d9311bb658be0e01bee63d31950f66396b9de2'),
	(391835750519275524, 0, 3, 'RUNNING', 'allocate_resources', '', 'test', '', NULL, 1795298570989613, '\x9aae3e5ee00b1005d0e5f785f0e09666408235af950650d1b25e17d2f27e597e'),
	(391835750519275525, 0, 3, 'RUNNING', 'allocate_resources', '', 'test', '', NULL, 1795298570989613, '\xd4d08da013db6846dc4ec61ce8c677b008a1b28a55de92522e0dc455c0a47b9e'),
	(391835750519275526, 0, 3, 'RUNNING', 'allocate_resources', '', 'test', '', NULL, 1795298570989613, '\x25e8639dc9cc20c68bd92db52c9ece562158ca487c80b95497ee1b914d358a94'),
	(391835750519275524, 1048576, 2, 'enqueued', 'enqueue', '', 'test', '', NULL, 1795298570989613, '\x845b15f26e4c0b1d5529c4b555bf939e22135ea216ba3b86bf78eb392991e8aa'),
	(391835750519275525, 1048576, 2, 'enqueued', 'enqueue', '', 'test', '', NULL, 1795298570989613, '\xc816c15003d09d8534d165b54648eb2adfac38614ea6c3e2108e209093f68132'),
	(391835750519275525, 1048576, 3, 'in_progress', 'claim', '', 'test', '', NULL, 1795298570989613, '\x46b41a5eb472660f96b782b124395f1656aa2a848e25165f9463638c0829d196'),
	(391835750519275525, 1048576, 4, 'complete', 'success', '', 'test', '', NULL, 1795298570989613, '\x9b85cef965f78ebaa8a0b4e3b59ed96a565fe396e245405712ccd5db458421d9'),
	(391835750519275525, 2097152, 2, 'skipped', 'skip', '', 'test', '', NULL, 1795298570989613, '\xdb98ad08c595660077e06f315b08d935efb99fe665b5bb882348c28fa9e786a3'),
	(391835750519275526, 1048576, 2, 'enqueued', 'enqueue', '', 'test', '', NULL, 1795298570989613, '\xa1706435c3bf6a063550a93511a85e5070205e59a4dab633f18e457b2ce4f7a9'),
	(391835750519275526, 1048576, 3, 'in_progress', 'claim', '', 'test', '', NULL, 1795298570989613, '\x4027b3bbe3b8651d2118483c1ff2e282f74d661f6ce1e6adc7141bfee50196e9'),
	(391835750519275526, 1048576, 4, 'complete', 'success', '', 'test', '', NULL, 1795298570989613, '\x6f85424320b4d27ed058a131882e969ff4c6c7326d124e66e50c08dce3f69b25'),
	(391835750519275526, 2097152, 2, 'skipped', 'skip', '', 'test', '', NULL, 1795298570989613, '\xf46da09b424d0d55c63563c9363580f9e0fef85240ff1b5d5f0e528e3146045d'),
	(391835750519275525, 0, 4, 'COMPLETED', 'success', '', 'test', '', NULL, 1795298570992091, '\xdff97f480db92f21915d1c635d2797ec75ef805dd8820e38e1431e9db9bda9ce'),
	(391835750519275526, 0, 4, 'FAILED', 'error', '', 'test', '', NULL, 1795298570992091, '\x7e0e6fd31debd9715fe6bf7b8111f7779fe3f2aa2ad5c3c93f3893284c66b543');
insert into definition (id, hash, name, source, created_at) values
	(7, '\x0100000000000000000000000000000000000000000000000000000000000000', 'noop', '\x7b7d', 1795298570983381);
insert into idempotency (workspace, key, endpoint, request_hash, status, body, created_at, expires_at) values
	('default', 'k', 'e', '\x0000000000000000000000000000000000000000000000000000000000000000', 201, '\x7b7d', 1795298570982874, 1152921504606846976);
insert into job (id, uuid, workspace, definition, workflow, description, parent, continues, depth, worker_count, private, created_at, state, seq, head, due_at, due_event, updated_at, route, priority, paused, mark, ending, open, active, started_at, completed_at, inputs, output, error, metadata) values
	(391835750519275522, '01a20022-32e7-7d7d-8000-0000baea8bbf', 'default', 7, 'noop', 'low', 0, 0, 0, 1, false, 1795298570983381, 'PENDING', 2, '\x1cb959eeddc2a2ffeea056dbcdf9c1e5cbe55fc6fa16df215a956daa788713e7', 0, '', 1795298570983381, 1, 0, false, 0, '', 1, 0, 0, 0, '{"n":1}', NULL, NULL, NULL),
	(391835750519275523, '01a20022-32e7-76f1-8000-0000fc4a2d8b', 'default', 7, 'noop', 'high', 0, 0, 0, 4, false, 1795298570983381, 'PENDING', 2, '\x2b1971f5042b7657383debc3ecfe52f6ff9caab7f32fe2e74114cc9a0eb51c9c', 0, '', 1795298570983381, 1, 5, false, 0, '', 1, 0, 0, 0, '{"n":1}', NULL, NULL, NULL),
	(391835750519275524, '01a20022-32e7-7453-8000-00012304839e', 'default', 7, 'noop', 'running', 0, 0, 0, 1, true, 1795298570983381, 'RUNNING', 3, '\x9aae3e5ee00b1005d0e5f785f0e09666408235af950650d1b25e17d2f27e597e', 0, '', 1795298570989613, 1, 0, false, 0, '', 1, 1, 1795298570989613, 0, '{"n":1}', NULL, NULL, NULL),
	(391835750519275525, '01a20022-32e7-733d-8000-00015c706686', 'default', 7, 'noop', 'done', 0, 0, 0, 1, false, 1795298570983381, 'COMPLETED', 4, '\xdff97f480db92f21915d1c635d2797ec75ef805dd8820e38e1431e9db9bda9ce', 0, '', 1795298570992091, 1, 0, false, 0, '', 0, 0, 1795298570989613, 1795298570992091, '{"n":1}', '{"ok":true}', NULL, NULL),
	(391835750519275526, '01a20022-32e7-7ccc-8000-00018c692c25', 'default', 7, 'noop', 'failed', 391835750519275525, 391835750519275525, 1, 1, false, 1795298570983381, 'FAILED', 4, '\x7e0e6fd31debd9715fe6bf7b8111f7779fe3f2aa2ad5c3c93f3893284c66b543', 0, '', 1795298570992091, 1, 0, false, 0, 'FAILED', 0, 0, 1795298570989613, 1795298570992091, '{"n":1}', NULL, '{"class":"x","message":"broke","permanent":false}', NULL);
insert into log (job, ord, claim, stream, off, at, data) values
	(391835750519275525, 1048576, 1, 'stdout', 0, 1, '\x68656c6c6f');
insert into refusal (id, job, ord, at, claim, event, actor, why, data) overriding system value values
	(1, 391835750519275522, 1048576, 1795298570983381, 1, 'success', 'a', 'late', NULL);
insert into step (job, ord, created_at, state, seq, head, due_at, due_event, updated_at, mark, unmet, skipped, attempts, claims, losses, worker, route, priority, total, made, live, enqueued_at, started_at, completed_at, input, output, error) values
	(391835750519275522, 1048576, 1795298570983381, 'pending', 1, '\x7c8b23da4f6e2556c54a9eed52ea987e44c5f7b32b7b13b91d504b79cefa7126', 0, '', 1795298570983381, 0, 0, false, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL),
	(391835750519275522, 2097152, 1795298570983381, 'pending', 1, '\x0fc56840c8a4e6be9ee7b1e2120b59572271ebb2fa4e62e892709e3534f1420c', 0, '', 1795298570983381, 0, 1, false, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL),
	(391835750519275523, 1048576, 1795298570983381, 'pending', 1, '\x18dffce9fce495d8eacc3fbb1ed69fa95d73614c5ebf00154a23cf956fd3009e', 0, '', 1795298570983381, 0, 0, false, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL),
	(391835750519275523, 2097152, 1795298570983381, 'pending', 1, '\x265fc39e086cd884b4bc51647e55d069ad50444613c6f5769de822edf5a73dad', 0, '', 1795298570983381, 0, 1, false, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL),
	(391835750519275524, 2097152, 1795298570983381, 'pending', 1, '\xb1a2da3e9e9adf1db55da57ef93fb42343da6ec170fdcbe6dc5dc7657d892afe', 0, '', 1795298570983381, 0, 1, false, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL),
	(391835750519275524, 1048576, 1795298570983381, 'enqueued', 2, '\x845b15f26e4c0b1d5529c4b555bf939e22135ea216ba3b86bf78eb392991e8aa', 0, '', 1795298570989613, 0, 0, false, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1795298570989613, 0, 0, NULL, NULL, NULL),
	(391835750519275525, 1048576, 1795298570983381, 'complete', 4, '\x9b85cef965f78ebaa8a0b4e3b59ed96a565fe396e245405712ccd5db458421d9', 0, '', 1795298570989613, 0, 0, false, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, NULL, '{"ok":true}', NULL),
	(391835750519275525, 2097152, 1795298570983381, 'skipped', 2, '\xdb98ad08c595660077e06f315b08d935efb99fe665b5bb882348c28fa9e786a3', 0, '', 1795298570989613, 0, 1, false, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL),
	(391835750519275526, 1048576, 1795298570983381, 'complete', 4, '\x6f85424320b4d27ed058a131882e969ff4c6c7326d124e66e50c08dce3f69b25', 0, '', 1795298570989613, 0, 0, false, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, NULL, '{"ok":true}', NULL),
	(391835750519275526, 2097152, 1795298570983381, 'skipped', 2, '\xf46da09b424d0d55c63563c9363580f9e0fef85240ff1b5d5f0e528e3146045d', 0, '', 1795298570989613, 0, 1, false, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL);
insert into worker (id, uuid, workspace, name, host, pid, capacity, routes, handlers, created_at, state, seq, head, due_at, due_event, updated_at, metadata) values
	(391835750519275521, '01a20022-32e7-7f83-8000-0000469b26f5', 'default', 'w', 'h', 1, 4, '[1,2]', '["default/echo"]', 1795298570983381, 'IDLE', 1, '\x40226433918ed71f857d7b7754dc9fcd5840fe773e25586ecda4cd999c8a8afa', 0, '', 1795298570983381, '{"zone": "a"}');
insert into worker_audit (worker, seq, state, event, reason, actor, request_id, metadata, at, hash) values
	(391835750519275521, 1, 'IDLE', 'register', '', 'test', '', NULL, 1795298570983381, '\x40226433918ed71f857d7b7754dc9fcd5840fe773e25586ecda4cd999c8a8afa');
