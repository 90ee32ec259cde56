-- rolling
DELETE FROM audit WHERE job IN (SELECT job FROM removal);
DELETE FROM signal WHERE job IN (SELECT job FROM removal);
DELETE FROM refusal WHERE job IN (SELECT job FROM removal);
DELETE FROM step WHERE job IN (SELECT job FROM removal);
DROP TABLE removal;
