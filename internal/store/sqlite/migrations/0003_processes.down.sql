-- Back to version 2.

-- Speed.

-- Retention.

DROP TABLE anchor;

-- Processes.

DROP TABLE node;
