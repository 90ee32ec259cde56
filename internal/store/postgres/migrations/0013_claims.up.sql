-- rolling
-- A step that is claimed changes no column of an index any more, so that the server writes the row
-- into its page again and touches no index. On a large database build these indexes beforehand,
-- with create index concurrently: writers wait while they are built here.
create index if not exists step_slots on step (pool) where line = 2;
create index if not exists step_cancel on step (due_at) where due_event = 'cancel';
do $$
declare
  broken regclass;
begin
  select indexrelid into broken from pg_index
  where indexrelid in ('step_slots'::regclass, 'step_cancel'::regclass) and not (indisvalid and indisready);
  if found then
    raise exception 'index % was not built to its end', broken using hint = format('run reindex index concurrently %s', broken);
  end if;
end $$;
drop index step_pool, step_stop;

-- Columns of one length come before the others, so that the server finds them, and those of indexes
-- above all, without reading what is before them. Only tables that this very transaction has made get
-- this order: nobody else has seen them, and no table is written anew.
do $$
declare
  tables  text[] := '{step, job}';
  views   regclass[];
  queries text[];
  indexes text[];
  tab     text;
  list    text;
begin
  if not exists (select from migration where version = 1 and at = now()) then
    return;
  end if;
  -- Views do without the tables meanwhile.
  select array_agg(v), array_agg(pg_get_viewdef(v)) into views, queries from (
    select distinct r.ev_class::regclass as v from pg_depend d join pg_rewrite r on r.oid = d.objid
    where d.classid = 'pg_rewrite'::regclass and d.refobjid = any (tables::regclass[])) w;
  for n in 1 .. coalesce(cardinality(views), 0) loop
    select string_agg(format('null::%s as %I', format_type(atttypid, atttypmod), attname), ', ' order by attnum) into list
    from pg_attribute where attrelid = views[n] and attnum > 0;
    execute format('create or replace view %s as select %s', views[n], list);
  end loop;
  foreach tab in array tables loop
    select array_agg(pg_get_constraintdef(oid)) into indexes from pg_constraint where conrelid = tab::regclass and contype = 'p';
    indexes := format('alter table %I add constraint %I %s', tab, tab || '_pkey', indexes[1])
      || array(select pg_get_indexdef(indexrelid) from pg_index where indrelid = tab::regclass and not indisprimary);
    select string_agg(concat_ws(' ', format('%I %s', attname, format_type(atttypid, atttypmod)),
        'default ' || pg_get_expr(adbin, adrelid), case when attnotnull then 'not null' end), ', '
        order by attlen < 0, not attnotnull, attlen desc, attnum) into list
    from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where attrelid = tab::regclass and attnum > 0 and not attisdropped;
    execute format('create table %I (%s) with (%s)', tab || '_ordered', list,
      (select array_to_string(reloptions, ', ') from pg_class where oid = tab::regclass));
    execute format('drop table %I', tab);
    execute format('alter table %I rename to %I', tab || '_ordered', tab);
    for n in 1 .. cardinality(indexes) loop
      execute indexes[n];
    end loop;
  end loop;
  for n in 1 .. coalesce(cardinality(views), 0) loop
    execute format('create or replace view %s as %s', views[n], queries[n]);
  end loop;
end $$;
